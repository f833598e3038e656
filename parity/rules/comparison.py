"""The rules of comparisons: of two models, and of implementations with what they declare."""

from collections.abc import Mapping
from typing import Final

from parity.rules.rule import Rule

RULES: Final[Mapping[str, Rule]] = {
    "activation-variant": Rule(
        summary="An activation is another function than the reference, the config or its name says.",
        meaning="GELU by tanh for GELU by erf, hard swish for SiLU, none at all. The classic of exports: erf and tanh "
        "are never more than 4.8e-4 apart, so that the usual tolerances see nothing, and the difference adds up from "
        "layer to layer.",
        detection="Activations are found by their structure, however they are spelt, and named by evaluating them: "
        "tails, infinities and NaN too, so that it does not matter whether the run's inputs reach where two variants "
        "differ. A scan holds the graph against the config; `parity suite` and `parity identify` hold an "
        "implementation against its name.",
        mending="Export again from the reference's function, or put it in the place of the operator that the finding "
        "names; `--write-fix` does that in an ONNX file. If the weights were trained with the candidate's function, "
        "the reference is the one to mend.",
        example="""\
```text
reference: torch.nn.GELU()                      x·Φ(x)
candidate: torch.nn.GELU(approximate="tanh")    the tanh form

activation-variant  the candidate computes gelu_tanh where the reference computes gelu_erf
(largest difference 0.00047 at x = -2.7)
```""",
    ),
    "activation-parameter": Rule(
        summary="An activation is the right function with another parameter.",
        meaning="Leaky ReLU with slope 0.2 or 0.3 for 0.01, ELU with another alpha, a hard sigmoid of slope 0.2. "
        "Frameworks have other defaults under the same name.",
        detection="As `activation-variant`; parameters are fitted to what the activation gives.",
        mending="Give the parameter explicitly on both sides, and trust no default.",
        example="""\
```text
reference: torch.nn.ELU()
candidate: torch.nn.ELU(alpha=0.5)

activation-parameter  the candidate computes elu[alpha=0.5] where the reference computes elu (largest
difference 0.5 at x = -40)
```""",
    ),
    "activation-unknown": Rule(
        summary="An activation is no function that is known.",
        meaning="A polynomial or a table that approximates one, a swapped digit, or a function of somebody's own.",
        detection="No variant fits beyond rounding. A polynomial is told with its coefficients; otherwise the nearest "
        "variant is named, and how far it is. A truncated constant (0.7979 for the square root of 2/π) is not meant: "
        "that is still the variant.",
        mending="Look where the constants come from. If the approximation is meant, allow the rule and give the "
        "reason.",
        example="""\
```text
reference: gelu(x)
candidate: 0.5·x + 0.4·x²
```""",
    ),
    "normalization-epsilon": Rule(
        summary="A normalisation has another epsilon.",
        meaning="1e-5, 1e-6 and 1e-12 are all somebody's default. It shows where the variance is small, and hides "
        "elsewhere.",
        detection="The epsilon of each normalisation, fused or written out, is read from the operators and their "
        "numbers; with the reference's in the place of the candidate's, the difference has to go away.",
        mending="Set the epsilon that the finding names. Look at the defaults: PyTorch's LayerNorm has 1e-5, Keras's "
        "1e-3, flax's 1e-6, BERT's config 1e-12.",
        example="""\
```text
reference: nn.LayerNorm(64)              epsilon 1e-05
candidate: nn.LayerNorm(64, eps=1e-3)

normalization-epsilon  the candidate normalises with epsilon 0.001 where the reference has 1e-05
```""",
    ),
    "normalization-mode": Rule(
        summary="A normalisation takes its statistics over something else.",
        meaning="A batch norm that was exported in training mode ignores the stored mean and variance; a layer norm "
        "over other axes; groups for instances.",
        detection="The statistics of both sides are computed from the same numbers; the candidate's normalisation "
        "with the reference's statistics has to be right.",
        mending="Export in evaluation mode (`model.eval()`, `training=False`), or take the statistics over the axes "
        "that the finding names.",
        example="""\
```text
reference: batch_norm(x, running_mean, running_var, training=False)
candidate: batch_norm(x, running_mean, running_var, training=True)

normalization-mode  the candidate normalises by other statistics: batch statistics, where the reference has running
statistics
```""",
    ),
    "normalization-form": Rule(
        summary="A normalisation is by another formula.",
        meaning="The mean is subtracted or not (layer norm and RMS norm), the variance is over n or n - 1, epsilon "
        "stands under the root or beside it, the scale is w or 1 + w, the bias is missing.",
        detection="Each of these is changed in the candidate alone, and the one is told that makes the difference go "
        "away.",
        mending="Use the formula that the finding names. Gemma's RMS norm multiplies by 1 + w, Llama's by w: with one "
        "for the other the weights have to be stored one less or one more.",
        example="""\
```text
reference: x / sqrt(var(x, correction=0) + 1e-5)
candidate: x / sqrt(var(x, correction=1) + 1e-5)

normalization-form  the candidate normalises by another formula: variance over n - 1, where the reference has
variance over n
```""",
    ),
    "nondeterminism": Rule(
        summary="A model gives other outputs when it is run again, or dropout is left on.",
        meaning="Two runs on one input differ, so that nothing can be compared with anything. Or numbers are dropped "
        "by a key that is the same each time, which repeats and is wrong all the same.",
        detection="Each side is run twice; where the outputs differ, the first operator is named whose results do. A "
        "reference that does not repeat itself makes the verdict inconclusive, a candidate makes it a mismatch.",
        mending="Put the model in inference mode: `model.eval()`, `training=False` (Keras), `deterministic=True` "
        "(flax), and `training_mode` 0 of Dropout nodes in ONNX.",
        example="""\
```text
candidate = build()     # no .eval(): dropout draws anew in each run

nondeterminism  Two runs of the candidate on the same input differ, first at mlp.dropout
```""",
    ),
    "precision": Rule(
        summary="Something is computed in a lower precision than the tensors say.",
        meaning="Tensors say float32 and hold the bits of bfloat16, float16 or TF32: a kernel or a cast inside has "
        "rounded. As a note: a precision that the tensors do say, and that is used well.",
        detection="The function is the same in float64 on both sides, and the candidate is farther from it than its "
        "twin, the reference in the type that the candidate declares. The number of effective bits is told, and the "
        "precision whose simulated rounding gives these very errors.",
        mending="Find the flag or the cast that lowers it. If it is agreed, say so: `--candidate-dtype bfloat16`; "
        "then it is held against honest rounding in that type.",
        example="""\
```text
reference: x @ w
candidate: (x.bfloat16() @ w.bfloat16()).float()
```""",
    ),
    "weights": Rule(
        summary="A weight is not the reference's.",
        meaning="Transposed, scaled, shifted by a row, rounded, quantised, missing, or another one. The operator that "
        "reads it is right.",
        detection="Weights are aligned by their numbers, in either orientation. With the reference's in the place of "
        "the candidate's, the difference has to go away.",
        mending="Look at how the weight was converted, and export it again; the finding says what was done to it. "
        "`--write-fix` puts the right numbers into an ONNX file.",
        example="""\
```text
reference: x @ w           w square, as trained
candidate: x @ w.T         the exporter's transpose forgotten

weights  the candidate's weight 'val_48' is not the reference's 'attention.output.weight': transposed
```""",
    ),
    "attention-scale": Rule(
        summary="The scores of an attention are scaled by another factor.",
        meaning="1/d for 1/√d, the scale left out, or applied twice: once to the queries and once more in the "
        "operator.",
        detection="The scores before the softmax are held against each other: one factor explains all of them.",
        mending="Scale queries times keys once, by the factor that the finding names. Operators of attention scale by "
        "themselves unless they are told not to.",
        example="""\
```text
reference: softmax(q @ k.T / sqrt(8)) @ v
candidate: softmax(q @ k.T / 8) @ v

attention-scale  the candidate scales its scores by 1/8 where the reference scales them by 1/sqrt(8)
```""",
    ),
    "attention-mask": Rule(
        summary="Other positions of an attention are masked, or they are masked in another way.",
        meaning="The mask is lost or baked in, a causal one is shifted by a position, its sense is inverted, or it is "
        "filled with a number that is not low enough.",
        detection="What is added to the scores on either side is read from their numbers, and told in words: causal, "
        "of the input, none, filled with a number. With the reference's mask the candidate has to be right.",
        mending="Give the mask as an input of the export, and use one with padding as the example; a constant one is "
        "baked in. Compare with inputs that are masked: a batch without padding shows nothing.",
        example="""\
```text
reference: softmax(scores.masked_fill(mask == 0, -inf))
candidate: softmax(scores)

attention-mask  the candidate's attention is masked otherwise: no mask, where the reference has padding masked
```""",
    ),
    "softmax-axis": Rule(
        summary="A softmax is taken over another axis.",
        meaning="Over the queries for the keys, over the batch, over all axes from one on.",
        detection="Each softmax is taken over the reference's axis instead; then the candidate has to be right.",
        mending="Set the axis that the finding names. ONNX before opset 13 flattens all axes from `axis` on.",
        example="""\
```text
reference: softmax(scores, dim=-1)
candidate: softmax(scores, dim=-2)

softmax-axis  the candidate's softmax is over the axis 2 where the reference's is over the last axis
```""",
    ),
    "pooling-divisor": Rule(
        summary="An average is divided by another number.",
        meaning="Padding is counted or not, the ends of a window that hangs over are, or the length of a sequence was "
        "baked in at the export.",
        detection="The two averages differ by a factor that each border explains.",
        mending="Set `count_include_pad` as the reference has it, or compute the length from the input's shape.",
        example="""\
```text
reference: avg_pool2d(x, 3, padding=1, count_include_pad=False)
candidate: avg_pool2d(x, 3, padding=1)

pooling-divisor  the candidate's average is divided with padding counted where the reference's is divided with
padding
not counted
```""",
    ),
    "resize-coordinates": Rule(
        summary="An image is resized by another convention.",
        meaning="Corners aligned or not, half pixels, another rounding of nearest neighbours, another cubic kernel, "
        "no antialiasing.",
        detection="The convention of a side is the one that makes its output of its input, tried one by one, whether "
        "it has one operator for it or twenty.",
        mending="Set the convention that the finding names; in ONNX `coordinate_transformation_mode` and "
        "`nearest_mode`.",
        example="""\
```text
reference: interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
candidate: interpolate(x, scale_factor=2, mode="bilinear", align_corners=True)

resize-coordinates  the candidate resizes with align_corners where the reference has half_pixel
```""",
    ),
    "padding": Rule(
        summary="An image is padded otherwise.",
        meaning="More at the end for as much on both sides – what SAME means with strides –, by another width, or "
        "with other numbers than zeros.",
        detection="The borders of the convolution or pooling are tried as the reference has them.",
        mending="Pad explicitly, as the finding says, and let the operator pad nothing.",
        example="""\
```text
reference: conv2d(x, w, stride=2, padding=1)                            1 before, 1 after
candidate: tf.nn.conv2d(x, w, strides=2, padding="SAME")    0 before, 1 after

padding  the candidate pads SAME: 0 before, 1 after where the reference pads 1 on each side
```""",
    ),
    "rounding-mode": Rule(
        summary="Fractions are made whole in another way.",
        meaning="Integer division and remainders of negative numbers (floor or towards zero), casts, and halves "
        "rounded to even or up.",
        detection="The whole numbers of a side are, in some mode, the rounding of a fraction found before them; the "
        "modes of both sides are held against each other.",
        mending="Write out the mode that the finding names: `torch.div(…, rounding_mode=…)`, `floor`, `trunc`.",
        example="""\
```text
reference: torch.div(-7, 2, rounding_mode="floor")      -4
candidate: ONNX Div of integers                         -3

rounding-mode  the candidate rounds towards zero where the reference rounds down (floor); they differ below zero
```""",
    ),
    "recurrent-form": Rule(
        summary="A recurrent layer has another form.",
        meaning="The reset gate before or after the product, gates in another order, one bias for two, another "
        "direction, another first state.",
        detection="The layer is run in each other form on its own weights; the one is told that gives the reference's "
        "numbers.",
        mending="Set the form that the finding names: `linear_before_reset` in ONNX, `reset_after` in Keras; reorder "
        "the gates of the weights.",
        example="""\
```text
reference: torch.nn.GRU                        the reset gate after the product
candidate: GRU with linear_before_reset=0      before it

recurrent-form  the candidate's recurrent layer has reset before the matmul where the reference's has reset
after the
matmul
```""",
    ),
    "rotary-form": Rule(
        summary="A rotary embedding turns other pairs, the other way, or by other angles.",
        meaning="Halves are turned for neighbours (GPT-NeoX and GPT-J), the base is another, positions begin at "
        "another number.",
        detection="The rotations of both sides are found from their cosines and sines; turned as the reference does, "
        "the candidate has to be right.",
        mending="Turn the pairs that the finding names, or permute the weights of queries and keys to match; set the "
        "base.",
        example="""\
```text
reference: pairs (x[i], x[i + d/2])
candidate: pairs (x[2i], x[2i + 1])
```""",
    ),
    "overflow": Rule(
        summary="A number leaves its type's range in the candidate alone.",
        meaning="Infinity or NaN where the reference is finite: a softmax without its maximum taken off, a mask of "
        "-1e9 in float16, x³ of a GELU in float16.",
        detection="Elements that are not finite on one side only, and the first operator of the region that makes "
        "them.",
        mending="Rewrite the operator so that it stays in range, or run it in a wider type.",
        example="""\
```text
reference: softmax(x)
candidate: exp(x) / exp(x).sum()      inf in float32 above x = 88.7

overflow  Exp of 103.6 gives infinity in float32 where the reference stays finite
```""",
    ),
    "shape": Rule(
        summary="An output has another shape.",
        meaning="Axes in another order, one added or dropped, or numbers that are missing.",
        detection="The shapes of outputs that belong together are compared; where the same numbers are there in "
        "another layout, it is told.",
        mending="If the layout is meant, say so: `--candidate-output-perm 0:0,2,3,1`.",
        example="""\
```text
reference: [1, 8, 32, 32]      channels first
candidate: [1, 32, 32, 8]      channels last
```""",
    ),
    "missing-output": Rule(
        summary="An output of the reference has no counterpart.",
        meaning="The export left an output out. For by-products – a pooler's output, caches – that is a note. In a "
        "suite: an implementation gives nothing that can be measured in a type.",
        detection="Outputs are set to each other by name, or by order where names are lacking.",
        mending="Export the model with all of its outputs, or name those that are wanted.",
        example="""\
```text
reference: {"logits": …, "hidden": …}
candidate: ["logits"]
```""",
    ),
    "graph-optimizer": Rule(
        summary="The runtime's optimiser changes what the graph computes.",
        meaning="The file is right: it is the engine that rewrites it into another function, or computes its whole "
        "otherwise than its operators one by one.",
        detection="The candidate is compared once more without the optimiser; what is gone then was its doing.",
        mending="Run with a lower level of optimisation or without the setting that the finding names, and tell the "
        "engine's authors.",
        example="""\
```text
parity diff model.onnx model.onnx --reference-optimization none \\
  --candidate-session-config optimization.enable_gelu_approximation=1
```""",
    ),
    "batch-dependence": Rule(
        summary="The result of a sample depends on what else is in the batch.",
        meaning="Statistics or sums are taken over the whole batch: a scale of activations for all samples at once, a "
        "batch norm in training mode.",
        detection="Each sample is put through both sides alone. One side gives what it gives in the batch, the other "
        "does not.",
        mending="Take statistics over each sample alone – or over the batch, if the reference does.",
        example="""\
```text
reference: x / x.abs().amax(dim=-1, keepdim=True)
candidate: x / x.abs().max()
```""",
    ),
    "unexplained": Rule(
        summary="A difference that no known cause explains.",
        meaning="The place is certain, the cause is not: a residual that is left out, an index off by one, layers "
        "swapped, or a cause that is not known here yet. From `parity suite` and `parity doctor`: an engine failed.",
        detection="The two functions differ in float64 beyond what rounded constants do, and with none of the known "
        "causes mended does nine tenths of the difference go away. The finding says what was tried, and what the "
        "error looks like.",
        mending="Compare the operators that it names one by one; `--repro DIR` saves both sides of them with their "
        "inputs, to run without the models.",
        example="""\
```text
reference: x + mlp(norm(x))
candidate: mlp(norm(x))

unexplained  none of the known causes explains the difference
```""",
    ),
}
"""By name."""
