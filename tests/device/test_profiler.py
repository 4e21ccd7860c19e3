"""torch_npu.profiler records on the device, and the plugin's own parser reads what it wrote."""

import csv
import json
from pathlib import Path

import torch
import torch_npu


def test_profile_is_parsed(tmp_path: Path):
    profiler = torch_npu.profiler
    config = profiler._ExperimentalConfig(
        export_type=profiler.ExportType.Text, profiler_level=profiler.ProfilerLevel.Level1, mstx=True
    )
    x, w = torch.randn(8, 8, device="npu"), torch.randn(8, 8, device="npu", requires_grad=True)
    with profiler.profile(
        activities=[profiler.ProfilerActivity.CPU, profiler.ProfilerActivity.NPU],
        experimental_config=config,
        on_trace_ready=profiler.tensorboard_trace_handler(str(tmp_path)),
    ):
        mark = torch.npu.mstx.range_start("my step")
        (x @ w).relu().sum().backward()
        torch.npu.mstx.range_end(mark)
    torch.npu.synchronize()
    (kernels,) = tmp_path.glob("*/ASCEND_PROFILER_OUTPUT/kernel_details.csv")
    names = [row["Name"] for row in csv.DictReader(kernels.read_text().splitlines())]
    assert "aclnnRelu" in names and any("Mm" in n or "Matmul" in n for n in names), names
    (trace,) = tmp_path.glob("*/ASCEND_PROFILER_OUTPUT/trace_view.json")
    events = json.loads(trace.read_text())
    assert any("my step" in str(e.get("name")) for e in events)
    flows = [e for e in events if e.get("cat") == "async_npu"]
    assert flows, "no arrows from torch's operators to the kernels"
