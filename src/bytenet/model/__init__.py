"""The network: one file a part of the paper. It knows tensors and their configs, but no text and no files."""

from bytenet.model.baselines.attention import AttentionConfig, AttentionTranslator
from bytenet.model.baselines.grid_lstm import GridConfig, GridTranslator
from bytenet.model.baselines.neural_gpu import NeuralGpu, NeuralGpuConfig
from bytenet.model.baselines.rctm import Rctm1, Rctm1Config, Rctm2, Rctm2Config
from bytenet.model.baselines.transformer import Transformer, TransformerConfig
from bytenet.model.language_model import LanguageModel, LanguageModelConfig
from bytenet.model.recurrent import RecurrentTranslator, RecurrentTranslatorConfig
from bytenet.model.state import RowState, State
from bytenet.model.translator import Translator, TranslatorConfig

Baseline = Rctm1 | Rctm2 | AttentionTranslator | GridTranslator | NeuralGpu | Transformer
BaselineConfig = Rctm1Config | Rctm2Config | AttentionConfig | GridConfig | NeuralGpuConfig | TransformerConfig
AnyTranslator = Translator | RecurrentTranslator | Baseline
"""What starts from sources: every row of Table 1."""
AnyTranslatorConfig = TranslatorConfig | RecurrentTranslatorConfig | BaselineConfig
Model = LanguageModel | AnyTranslator
ModelConfig = LanguageModelConfig | AnyTranslatorConfig

_MODELS: dict[type[ModelConfig], type[Model]] = {
    LanguageModelConfig: LanguageModel,
    TranslatorConfig: Translator,
    RecurrentTranslatorConfig: RecurrentTranslator,
    Rctm1Config: Rctm1,
    Rctm2Config: Rctm2,
    AttentionConfig: AttentionTranslator,
    GridConfig: GridTranslator,
    NeuralGpuConfig: NeuralGpu,
    TransformerConfig: Transformer,
}


def build(config: ModelConfig) -> Model:
    """A new model with random weights."""
    return _MODELS[type(config)](config)  # type: ignore[arg-type]


__all__ = [
    "AnyTranslator",
    "AnyTranslatorConfig",
    "LanguageModel",
    "LanguageModelConfig",
    "Model",
    "ModelConfig",
    "RecurrentTranslator",
    "RecurrentTranslatorConfig",
    "RowState",
    "State",
    "Translator",
    "TranslatorConfig",
    "build",
]
