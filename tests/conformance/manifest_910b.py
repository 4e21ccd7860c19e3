"""TorchCTS manifest of a 910B: its own `training` template, narrowed to what the board family accepts.

Written out as manifest.py by scripts/conformance.sh. What is narrowed, and the public source of each: double,
unsigned 16 to 64 bit and channels_last are refused by the operators' documents or by the plugin; optional parts of
torch that torch_npu leaves to others (sparse, nested, quantised) are off in the template too.
"""

import runpy
from pathlib import Path

import torch
import torchcts

manifest = runpy.run_path(str(Path(torchcts.__file__).parent / "templates/manifest.training.py"))["manifest"]
manifest["device_name"] = "npu"
manifest["backend_import"] = "torch_npu"
manifest["supported_dtypes"] |= {t: False for t in (torch.float64, torch.uint16, torch.uint32, torch.uint64)}
manifest["hardware"] |= {"device_memory_gb": [32], "system_memory_gb": 16}
manifest["capabilities"] |= {"channels_last": False, "gradcheck": False, "double_backward": True}
