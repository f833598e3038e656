"use strict";
(() => {
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // Colours stand in the data as var(--name), which SVG of Plotly cannot read.
  function coloured(value, key) {
    if (Array.isArray(value)) return value.map((one) => coloured(one, key));
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, coloured(one, name)]));
    }
    const found = key === "color" && /^var\((--[a-z0-9-]+)\)$/.exec(value);
    return found ? colour(found[1]) : value;
  }

  function layoutOf(own) {
    const axis = { color: colour("--quiet"), gridcolor: colour("--rule"), zerolinecolor: colour("--rule"), automargin: true };
    const narrow = window.innerWidth < 700;
    return {
      ...own,
      xaxis: { ...axis, ...own.xaxis },
      yaxis: { ...axis, ...own.yaxis },
      font: { color: colour("--ink"), family: "system-ui, sans-serif", size: narrow ? 11 : 13 },
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      margin: { l: 10, r: 10, t: 10, b: 10 },
      legend: { orientation: "h", x: 0, y: 1, yanchor: "bottom", traceorder: "normal" },
      hoverlabel: { align: "left", bgcolor: colour("--raised"), bordercolor: colour("--rule"), font: { color: colour("--ink") } },
      hovermode: "closest",
      showlegend: true,
      dragmode: matchMedia("(pointer: fine)").matches ? "zoom" : false,
    };
  }

  const plots = [...document.querySelectorAll(".chart")];
  function draw() {
    for (const plot of plots) {
      const { data, layout } = figures[plot.dataset.figure];
      const shapes = plot.layout ? plot.layout.shapes : [];
      Plotly.react(plot, coloured(data), { ...layoutOf(layout), shapes }, { displayModeBar: false, responsive: true });
    }
  }

  const exact = (value) => (value === null ? "–" : String(Number(value.toPrecision(6))));
  function explore(explorer) {
    const slider = explorer.querySelector("input");
    const pair = [...explorer.querySelectorAll(".chart")];
    const lines = figures[pair[0].dataset.figure].data;
    const rows = [...explorer.querySelectorAll("tbody tr")];
    function show() {
      const k = Number(slider.value);
      const x = lines[0].x[k];
      explorer.querySelector("output").textContent = x.toFixed(2);
      rows.forEach((row, i) => {
        const [value, first] = [lines[i].y[k], lines[0].y[k]];
        row.cells[1].textContent = exact(value);
        row.cells[2].textContent = i && value !== null && first !== null ? exact(value - first) : "–";
      });
      const mark = { type: "line", xref: "x", yref: "paper", x0: x, x1: x, y0: 0, y1: 1, line: { width: 1, color: colour("--quiet") } };
      for (const plot of pair) Plotly.relayout(plot, { shapes: [mark] });
    }
    slider.addEventListener("input", show);
    show();
  }

  // Number where the cell has one, text in natural order else.
  function compared(a, b) {
    if (a.dataset.value !== undefined && b.dataset.value !== undefined) {
      const [x, y] = [a, b].map((one) => Number(one.dataset.value.replace("inf", "Infinity")));
      return x < y ? -1 : x > y ? 1 : 0;
    }
    return a.textContent.localeCompare(b.textContent, "en", { numeric: true });
  }

  function sortable(table) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, k) => {
      head.firstElementChild.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        heads.forEach((one) => one.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const rows = [...table.tBodies[0].rows].sort((a, b) => compared(a.cells[k], b.cells[k]) * (down ? -1 : 1));
        table.tBodies[0].append(...rows);
      });
    });
  }

  function filterable(box) {
    const [search, choice, count] = ["input", "select", ".count"].map((one) => box.querySelector(one));
    if (!search) return;
    const rows = [...box.querySelector("tbody").rows];
    function show() {
      const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
      let left = 0;
      for (const row of rows) {
        const cells = [...row.cells].map((cell) => cell.textContent);
        const text = cells.join(" ").toLowerCase();
        const fits = words.every((word) => text.includes(word)) && (!choice || !choice.value || cells.includes(choice.value));
        row.hidden = !fits;
        left += fits;
      }
      count.textContent = left === rows.length ? `${left} rows` : `${left} of ${rows.length} rows`;
    }
    search.addEventListener("input", show);
    if (choice) choice.addEventListener("change", show);
  }

  function copies(button) {
    button.addEventListener("click", async () => {
      const code = button.parentElement.querySelector("code");
      try {
        await navigator.clipboard.writeText(code.textContent);
      } catch {
        getSelection().selectAllChildren(code); // without leave to write there, it is at least marked
        document.execCommand("copy");
      }
      button.textContent = "copied";
    });
  }

  draw();
  document.querySelectorAll(".explorer").forEach(explore);
  document.querySelectorAll(".table table").forEach(sortable);
  document.querySelectorAll(".table").forEach(filterable);
  document.querySelectorAll(".copy").forEach(copies);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
})();
