"""torch.distributed with the hccl backend: one process, and three processes with a device each."""

import os
import socket
import subprocess
import sys

import pytest

WORLD = 3


def rank_main(rank: int, world: int) -> None:
    import torch
    import torch.distributed as dist
    import torch_npu  # noqa: F401

    torch.npu.set_device(rank)
    dist.init_process_group("hccl", rank=rank, world_size=world)
    x = torch.full((1000,), float(rank + 1), device="npu")
    dist.all_reduce(x)
    assert x.cpu().unique().tolist() == [sum(range(1, world + 1))]
    parts = [torch.empty(3, dtype=torch.int64, device="npu") for _ in range(world)]
    dist.all_gather(parts, torch.full((3,), rank, dtype=torch.int64, device="npu"))
    assert [p.cpu().tolist() for p in parts] == [[r] * 3 for r in range(world)]
    y = torch.full((4,), rank, dtype=torch.bfloat16, device="npu")
    dist.broadcast(y, world - 1)
    assert y.cpu().tolist() == [world - 1] * 4
    out = torch.empty(2, device="npu")
    dist.reduce_scatter_tensor(out, torch.arange(2.0 * world, device="npu"))
    assert out.cpu().tolist() == [world * 2.0 * rank, world * (2.0 * rank + 1)]
    got = torch.empty(world, dtype=torch.int32, device="npu")
    dist.all_to_all_single(got, torch.arange(world, dtype=torch.int32, device="npu") + 10 * rank)
    assert got.cpu().tolist() == [rank + 10 * r for r in range(world)]
    if world > 1:
        mine = torch.full((5,), float(rank), device="npu")
        theirs = torch.empty(5, device="npu")
        operations = [
            dist.P2POp(dist.isend, mine, (rank + 1) % world),
            dist.P2POp(dist.irecv, theirs, (rank - 1) % world),
        ]
        for request in dist.batch_isend_irecv(operations):
            request.wait()
        assert theirs.cpu().tolist() == [float((rank - 1) % world)] * 5
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2).npu(), device_ids=[rank])
    model(torch.full((3, 4), float(rank), device="npu")).sum().backward()
    weight = model.module.weight.grad.cpu()
    assert torch.allclose(weight, torch.full_like(weight, 3.0 * (world - 1) / 2))
    dist.barrier()
    dist.destroy_process_group()


@pytest.mark.parametrize("world", [1, WORLD])
def test_collectives(world: int):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    env = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "SOFTNPU_DEVICES": str(world)}
    ranks = [subprocess.Popen([sys.executable, __file__, str(r), str(world)], env=env) for r in range(world)]
    assert [p.wait(timeout=600) for p in ranks] == [0] * world


if __name__ == "__main__":
    rank_main(int(sys.argv[1]), int(sys.argv[2]))
