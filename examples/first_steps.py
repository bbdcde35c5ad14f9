"""A ByteNet in a minute: train a tiny language model, let it write, save it, load it again.

python examples/first_steps.py
"""

import tempfile
import time
from pathlib import Path

import torch
from torch.nn import functional as F

from bytenet import Bytes, LanguageModel, LanguageModelConfig, load_model, save_model
from bytenet.model.blocks import StackConfig

TEXT = "the quick brown fox jumps over the lazy dog; the lazy dog sleeps on. "


def main() -> None:
    torch.manual_seed(0)
    vocabulary = Bytes()
    stack = StackConfig(num_blocks=10, block="multiplicative")
    model = LanguageModel(LanguageModelConfig(inner_channels=48, decoder=stack))
    train(model, torch.tensor([vocabulary.encode(TEXT * 8)]), steps=60)

    with tempfile.TemporaryDirectory() as folder:
        save_model(model, [vocabulary], Path(folder) / "fox")
        loaded, _ = load_model(Path(folder) / "fox")
    assert isinstance(loaded, LanguageModel)
    begin = time.perf_counter()
    written = write(loaded, vocabulary.encode(TEXT[:12]), length=200)
    milliseconds = (time.perf_counter() - begin) * 1e3 / len(written)
    print(f"prompt:  {TEXT[:12]!r}\nwritten: {vocabulary.decode(written)!r}")
    print(f"{milliseconds:.1f} ms a character; the state stays {state_bytes(loaded):,} bytes however long the text")


def train(model: LanguageModel, text: torch.Tensor, steps: int) -> None:
    """text (1, T): predict every character from the ones before it."""
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for step in range(1, steps + 1):
        logits, _ = model(text[:, :-1], model.start())
        loss = F.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 15 == 0:
            print(f"step {step:>3}: {loss.item() / torch.log(torch.tensor(2.0)).item():.3f} bits/byte")


@torch.no_grad()
def write(model: LanguageModel, prompt: list[int], length: int) -> list[int]:
    """Read the prompt at once, then write one character a step, each at the same cost."""
    logits, state = model(torch.tensor([prompt]), model.start())
    written = []
    for _ in range(length):
        token = logits[:, -1:].argmax(dim=-1)
        written.append(int(token))
        logits, state = model(token, state)
    return written


def state_bytes(model: LanguageModel) -> int:
    return sum(history.nbytes for history in model.start().histories)


if __name__ == "__main__":
    main()
