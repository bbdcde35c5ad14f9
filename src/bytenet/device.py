"""Where tensors live."""

import torch


def choose_device(name: str | torch.device | None = None) -> torch.device:
    """The device of that name, or a GPU if there is one; ValueError if the name is none or the device is not there."""
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ValueError(f'"{name}" is not the name of a device, such as cpu or cuda') from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"{name}: there is no GPU that PyTorch can use here")
    return device
