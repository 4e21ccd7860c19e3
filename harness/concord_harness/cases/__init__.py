"""The built-in cases. Importing this package registers all of them; cases.tsv beside serve.py lists them."""

from concord_harness.cases import checkpoint, checkpoint_modes, checkpoint_rng, checkpoint_sequential, is_tensor_like

__all__ = ["checkpoint", "checkpoint_modes", "checkpoint_rng", "checkpoint_sequential", "is_tensor_like"]
