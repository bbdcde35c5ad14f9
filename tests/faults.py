"""Are the tests worth anything? Break the code in the ways in which public ByteNets are broken, and see tests fail.

    python tests/faults.py            (or: make faults)

Each fault is put into a copy of the project, one at a time, and the tests run there; first without any, where all must
pass. A few tests that fail are enough. A fault that no test notices, that no longer fits the code, or that keeps the
tests from being loaded at all, ends this with exit code 1.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
ENOUGH = 5


@dataclass(frozen=True)
class Fault:
    name: str
    file: str
    """Below src/bytenet."""
    right: str
    wrong: str


FAULTS = [
    Fault(
        "the norm runs over time",
        "model/normalization.py",
        "return F.layer_norm(x, self.shape[1:], weight, bias, EPSILON)",
        "m, v = x.mean(1, keepdim=True), x.var(1, keepdim=True, correction=0)\n"
        "            return (x - m) * (v + EPSILON).rsqrt() * weight + bias",
    ),
    Fault(
        "the norm runs over the batch",
        "model/normalization.py",
        "return F.layer_norm(x, self.shape[1:], weight, bias, EPSILON)",
        "m, v = x.mean(0, keepdim=True), x.var(0, keepdim=True, correction=0)\n"
        "            return (x - m) * (v + EPSILON).rsqrt() * weight + bias",
    ),
    Fault(
        "the norm of the gates runs over all gates at once",
        "model/normalization.py",
        "        if self.shape[0] == 1:\n            return F.layer_norm(x, self.shape[1:], weight, bias, EPSILON)",
        "        if True:\n            return F.layer_norm(x, x.shape[-1:], weight, bias, EPSILON)",
    ),
    Fault(
        "the norm runs over time and channels together",
        "model/normalization.py",
        "return F.layer_norm(x, self.shape[1:], weight, bias, EPSILON)",
        "return F.layer_norm(x, x.shape[1:], eps=EPSILON) * weight + bias",
    ),
    Fault(
        "dropout stays on in evaluation",
        "model/decoder.py",
        "h = self.dropout(rectified(self.second_norm, h))",
        "h = F.dropout(rectified(self.second_norm, h), self.dropout.p)",
    ),
    Fault(
        "a convolution remembers the last text",
        "model/convolution.py",
        "        extended = x if history is None else torch.cat([history, x], dim=1)\n",
        "        if history is not None and not history.any() and getattr(self, 'last', None) is not None:\n"
        "            history = self.last if self.last.shape == history.shape else history\n"
        "        extended = x if history is None else torch.cat([history, x], dim=1)\n"
        "        self.last = extended[:, x.shape[1] :].detach()\n",
    ),
    Fault(
        "a state is changed in place by reading on",
        "model/convolution.py",
        "        return self.mix(taps(extended, self.kernel_width, dilation)), extended[:, x.shape[1] :]",
        "        if history is not None:\n"
        "            with torch.no_grad():\n"
        "                history.copy_(extended[:, x.shape[1] :])\n"
        "        return self.mix(taps(extended, self.kernel_width, dilation)), extended[:, x.shape[1] :]",
    ),
    Fault(
        "the 20% are applied twice",
        "model/translator.py",
        "exact = self.a * self.padded_length(length) + self.b",
        "exact = self.a * (self.a * self.padded_length(length)) + self.b",
    ),
    Fault(
        "the 20% are applied twice in training and once in evaluation",
        "model/translator.py",
        "unfolded_of = {length: unfolding.unfolded_length(length) for length in different}",
        "twice = unfolding.unfolded_length if encoder.training else int\n"
        "    unfolded_of = {length: unfolding.unfolded_length(twice(length)) for length in different}",
    ),
    Fault(
        "unknown characters become padding",
        "vocabulary.py",
        "self._ids = np.full(NUM_CODE_POINTS, UNKNOWN, dtype=np.int32)",
        "self._ids = np.full(NUM_CODE_POINTS, PAD, dtype=np.int32)",
    ),
    Fault(
        "the state grows with the text: decoding reads the prefix again",
        "model/convolution.py",
        "return self.mix(taps(extended, self.kernel_width, dilation)), extended[:, x.shape[1] :]",
        "return self.mix(taps(extended, self.kernel_width, dilation)[:, -x.shape[1] :]), extended",
    ),
    Fault(
        "a sentence sees the padding of its batch",
        "model/convolution.py",
        "        if mask is not None:\n            x = x * mask\n",
        "",
    ),
    Fault(
        "a representation is as long as the longest of the batch",
        "model/translator.py",
        "return representation if kept is None else representation * kept",
        "return representation",
    ),
    Fault(
        "the kernel reaches one position into the future",
        "model/convolution.py",
        "        extended = x if history is None else torch.cat([history, x], dim=1)\n"
        "        return self.mix(taps(extended, self.kernel_width, dilation)), extended[:, x.shape[1] :]",
        "        extended = x if history is None else torch.cat([history, x], dim=1)\n"
        "        ahead = F.pad(extended[:, 1:], (0, 0, 0, 1))\n"
        "        return self.mix(taps(ahead, self.kernel_width, dilation)), extended[:, x.shape[1] :]",
    ),
    Fault(
        "the encoder is masked too",
        "model/convolution.py",
        "extended = F.pad(x, (0, 0, reach, reach))",
        "extended = F.pad(x, (0, 0, 2 * reach, 0))",
    ),
    Fault(
        "past its end, the representation's last position goes on",
        "model/translator.py",
        "source = F.pad(source, (0, 0, 0, missing))",
        "source = torch.cat([source, ahead[:, -1:].expand(-1, length - source.shape[1], -1)], dim=1)",
    ),
    Fault(
        "a beam stops at the first finished hypothesis",
        "decoding/beam_search.py",
        'done=beam.done | at_limit | (best["best_score"][:, -1] >= reachable),',
        'done=beam.done | at_limit | (best["best_score"][:, 0] > NOTHING),',
    ),
    Fault(
        "a row that follows another keeps its own past",
        "decoding/ring_engine.py",
        "table=self.table[:, rows], straight=self.time",
        "table=self.table[:, : len(rows)], straight=self.time",
    ),
    Fault(
        "select forgets the source",
        "model/state.py",
        "        return cast(Self, mapped(self, lambda tensor: tensor.index_select(0, rows)))",
        "        chosen = mapped(self, lambda tensor: tensor.index_select(0, rows))\n"
        "        ahead = getattr(self, 'ahead', None)\n"
        "        return chosen if ahead is None else replace(chosen, ahead=ahead[: len(rows)])",
    ),
    Fault(
        "rows that join others keep the time of their own rings",
        "decoding/ring_engine.py",
        "ring[:, places] = added.roll(shift, dims=0)",
        "ring[:, places] = added",
    ),
    Fault(
        "a sentence that joins a search counts its steps from the first one's",
        "decoding/beam_search.py",
        'per_sentence["began"] = torch.cat([self.began, other.began + self.step]) - passed',
        'per_sentence["began"] = torch.cat([self.began, other.began]) - passed',
    ),
    Fault(
        "a source's n-grams end at a position instead of lying around it",
        "model/ngrams.py",
        "after = [(size - 1) // 2 for size in config.sizes]",
        "after = [0 for size in config.sizes]",
    ),
    Fault(
        "heads that look ahead begin anew when a run is resumed",
        "training/trainer.py",
        "self.heads.load_state_dict(checkpoint.heads)",
        "pass",
    ),
]


def main() -> int:
    if failing := failing_tests(None):
        sys.exit(f"without any fault, these fail already: {failing}")
    unnoticed = 0
    for fault in FAULTS:
        failing = failing_tests(fault)
        or_more = " or more" if len(failing) >= ENOUGH else ""
        count = f"{min(len(failing), ENOUGH)}{or_more}"
        print(f"{fault.name} -> tests that fail: {count}", *failing, sep="\n    ", flush=True)
        unnoticed += not failing
    print(f"{len(FAULTS) - unnoticed} of {len(FAULTS)} faults are noticed")
    return 1 if unnoticed else 0


def failing_tests(fault: Fault | None) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in ("src", "tests", "recipes"):
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", copy)
        if fault is not None:
            put_in(fault, copy / "src" / "bytenet" / fault.file)
        tests = ["tests/model", "tests/decoding", "tests/test_vocabulary.py", "tests/training/test_trainer.py"]
        options = ["-n", "auto", "-m", "not slow", "-rfE", "--maxfail", str(ENOUGH), "--hypothesis-profile", "faults"]
        command = [sys.executable, "-m", "pytest", *options, *tests]
        environment = os.environ | {"PYTHONPATH": str(copy / "src")}
        result = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, check=False)
    stopped = f"stopping after {ENOUGH} failures" in result.stdout and "\nERROR " not in result.stdout
    if result.returncode not in (0, 1) and not stopped:  # pytest's codes for "all passed" and "some failed"
        sys.exit(f"{fault.name if fault else 'no fault'}: the tests did not run\n{result.stdout[-2000:]}")
    failed = [line.removeprefix("FAILED tests/") for line in result.stdout.splitlines() if line.startswith("FAILED ")]
    return [line.partition(" - ")[0] for line in failed]


def put_in(fault: Fault, file: Path) -> None:
    code = file.read_text()
    if code.count(fault.right) != 1:
        sys.exit(f"{fault.name}: its line stands {code.count(fault.right)} times in {fault.file}; mend tests/faults.py")
    file.write_text(code.replace(fault.right, fault.wrong))


if __name__ == "__main__":
    sys.exit(main())
