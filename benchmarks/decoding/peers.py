"""Peers of about 10 million parameters with random weights, each in its library's own cached forward pass.

The loops leave out `generate` and its overhead. Tried, and slower for the peer: x-transformers with rotary positions,
which turns all cached keys again at every step (18 ms for the 1000th character, with sinusoidal ones 11), and Mamba of
12 layers (10 ms a character, of 10 layers 9). Of Llama's caches neither is faster at every length: both are timed. The
static one costs the same at every position, by the length it is set aside for: 7.0, 7.8, 9.6 and 12.8 ms for 128, 512,
2048 and 4096.
"""

import torch
from contenders import Contender, Step
from transformers import (
    DynamicCache,
    LlamaConfig,
    LlamaForCausalLM,
    MambaConfig,
    MambaForCausalLM,
    StaticCache,
)
from transformers.utils import logging
from x_transformers import Decoder, TransformerWrapper

from bytenet.vocabulary import BEGIN, END, PAD, VocabularyConfig

NUM_IDS = VocabularyConfig().size
CONTROLS = {"pad_token_id": PAD, "bos_token_id": BEGIN, "eos_token_id": END}
WIDTH, DEPTH, HEADS = 320, 8, 5  # both Transformers


def peers(longest: int) -> list[Contender]:
    """Every peer, for texts of up to so many characters."""
    logging.set_verbosity_error()  # Mamba names the CUDA kernels that a CPU does not have
    return [x_transformer(longest), *llamas(longest), mamba()]


def x_transformer(longest: int) -> Contender:
    layers = Decoder(dim=WIDTH, depth=DEPTH, heads=HEADS, attn_dim_head=64, ff_mult=4.1, attn_flash=True)
    model = TransformerWrapper(
        num_tokens=NUM_IDS, max_seq_len=longest, attn_layers=layers, scaled_sinu_pos_emb=True
    ).eval()

    def start() -> Step:
        cache = None

        def step(token: int) -> int:
            nonlocal cache
            logits, cache = model(
                torch.tensor([[token]]), cache=cache, return_intermediates=True, input_not_include_cache=True
            )
            return int(logits.argmax())

        return step

    shape = f"{DEPTH} layers, width {WIDTH}, {HEADS} heads, feed-forward 1312, sinusoidal positions, flash attention"
    return Contender("x-transformers, KV cache", shape, model, start, model)


def llamas(longest: int) -> list[Contender]:
    """One model, its cache growing or set aside for the longest text."""
    config = LlamaConfig(
        vocab_size=NUM_IDS,
        hidden_size=WIDTH,
        intermediate_size=864,
        num_hidden_layers=DEPTH,
        num_attention_heads=HEADS,
        max_position_embeddings=longest,
        attn_implementation="sdpa",
        **CONTROLS,
    )
    model = LlamaForCausalLM(config).eval()

    def start_with(cache: DynamicCache | StaticCache) -> Step:
        def step(token: int) -> int:
            return int(model(torch.tensor([[token]]), past_key_values=cache, use_cache=True).logits.argmax())

        return step

    def read(tokens: torch.Tensor) -> torch.Tensor:
        return model(tokens, use_cache=False).logits

    shape = f"{DEPTH} layers, width {WIDTH}, {HEADS} heads, feed-forward 864, rotary positions, sdpa"
    return [
        Contender("Llama-type, dynamic KV cache", shape, model, lambda: start_with(DynamicCache(config=config)), read),
        Contender(
            "Llama-type, static KV cache",
            f"the same, cache for {longest}",
            model,
            lambda: start_with(StaticCache(config=config, max_cache_len=longest)),
            read,
        ),
    ]


def mamba() -> Contender:
    config = MambaConfig(vocab_size=NUM_IDS, hidden_size=392, num_hidden_layers=10, **CONTROLS)
    model = MambaForCausalLM(config).eval()

    def start() -> Step:
        cache = None

        def step(token: int) -> int:
            nonlocal cache
            output = model(torch.tensor([[token]]), cache_params=cache, use_cache=True)
            cache = output.cache_params
            return int(output.logits.argmax())

        return step

    def read(tokens: torch.Tensor) -> torch.Tensor:
        return model(tokens, use_cache=False).logits

    shape = "10 layers, width 392, state 16, reference path with the recurrent cache"
    return Contender("Mamba, recurrent cache", shape, model, start, read)
