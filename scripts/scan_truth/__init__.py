"""What models of transformers truly compute, beside what ``parity scan`` reads in their configs."""
