"""Train three small models on the device and on the CPU and compare the losses, step by step.

    softnpu run -- python tests/device/parity.py [mlp|cnn|encoder ...] [--dtype float32|bfloat16]

The CPU twin starts from the same parameters and data. Random streams differ between devices, so the twin multiplies
by the masks that the device's dropout really drew: they are read from the device by running the same dropout on ones
with the generator set back. The comparison is the largest relative difference of the loss over 20 steps; f32 must
stay within 1e-5, bf16 within 2e-2. A missing operator, a fallback to the CPU or a run without launches fails.
"""

import argparse
import sys
import warnings
from collections.abc import Callable

import torch
import torch_npu  # noqa: F401  (makes the device known)
from torch import nn
from torch.nn import functional as F

STEPS = 20
LIMIT = {torch.float32: 1e-5, torch.bfloat16: 2e-2}


class Dropout(nn.Module):
    """nn.Dropout whose masks can be recorded (device) and replayed (CPU)."""

    def __init__(self, p: float, tape: list[torch.Tensor]) -> None:
        super().__init__()
        self.p, self.tape, self.position = p, tape, 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.device.type == "cpu":
            self.position += 1
            return x * self.tape[self.position - 1].to(x.dtype)
        state = torch.npu.get_rng_state()
        self.tape.append(F.dropout(torch.ones_like(x), self.p).detach().cpu().float())
        torch.npu.set_rng_state(state)
        return F.dropout(x, self.p)


class Mlp(nn.Module):
    def __init__(self, tape: list[torch.Tensor]) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(32, 64), nn.ReLU(), Dropout(0.2, tape), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 10)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x)


class Cnn(nn.Module):
    def __init__(self, _tape: list[torch.Tensor]) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.AdaptiveAvgPool2d(2),
        )
        self.head = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.features(x).flatten(1))


class Encoder(nn.Module):
    """Two transformer encoder layers with a causal and a padding mask."""

    def __init__(self, _tape: list[torch.Tensor]) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, 32, padding_idx=0)
        layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(32, 10)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        n = tokens.shape[1]
        causal = torch.triu(torch.ones(n, n, dtype=torch.bool, device=tokens.device), diagonal=1)
        hidden = self.encoder(self.embedding(tokens), mask=causal, src_key_padding_mask=tokens == 0)
        return self.head(hidden.mean(dim=1))


def image_data() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(16, 3, 16, 16), torch.randint(0, 10, (16,))


def token_data() -> tuple[torch.Tensor, torch.Tensor]:
    tokens = torch.randint(1, 50, (8, 12))
    tokens[:, 10:] = 0
    return tokens, torch.randint(0, 10, (8,))


MODELS: dict[str, tuple[type[nn.Module], Callable, Callable]] = {
    "mlp": (
        Mlp,
        lambda: (torch.randn(16, 32), torch.randint(0, 10, (16,))),
        lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9),
    ),
    "cnn": (Cnn, image_data, lambda p: torch.optim.AdamW(p, lr=1e-3)),
    "encoder": (Encoder, token_data, lambda p: torch.optim.Adam(p, lr=1e-3)),
}


def train(name: str, device: str, dtype: torch.dtype, tape: list[torch.Tensor]) -> list[float]:
    model_class, make_data, make_optimizer = MODELS[name]
    torch.manual_seed(7)
    model = model_class(tape).to(device=device, dtype=dtype)
    data, target = make_data()
    data, target = data.to(device), target.to(device)
    if data.is_floating_point():
        data = data.to(dtype)
    optimizer = make_optimizer(model.parameters())
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(data).float(), target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", default=list(MODELS), help="mlp, cnn, encoder (default: all)")
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    options = parser.parse_args()
    dtype = getattr(torch, options.dtype)
    failed = 0
    for name in options.models:
        tape: list[torch.Tensor] = []
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            device_losses = train(name, "npu", dtype, tape)
        fallbacks = [str(w.message) for w in caught if "fall back to run on the CPU" in str(w.message)]
        cpu_losses = train(name, "cpu", dtype, tape)
        worst = max(abs(a - b) / max(abs(b), 1e-12) for a, b in zip(device_losses, cpu_losses, strict=True))
        learned = device_losses[-1] < device_losses[0]
        good = worst <= LIMIT[dtype] and learned and not fallbacks
        failed += not good
        print(
            f"{name:8} {options.dtype:9} torch {torch.__version__:12} loss {device_losses[0]:.6f} -> "
            f"{device_losses[-1]:.6f}  worst relative difference {worst:.2e}  {'ok' if good else 'FAILED'}"
        )
        for text in fallbacks:
            print(f"  fell back to the CPU: {text}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
