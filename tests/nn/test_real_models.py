"""Hugging Face models with their own losses: random weights, tiny sizes, no download."""

import os
import time
import warnings
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the nn extra is not installed")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    transformers = pytest.importorskip(
        "transformers", reason="transformers is not installed; pip install transformers to test it"
    )

from gradient_oracle import one_by_one  # noqa: E402

from noisette.errors import InvalidParameter  # noqa: E402
from noisette.nn.clipping import Flat  # noqa: E402
from noisette.nn.gradients import ClippedGradients  # noqa: E402

torch.set_num_threads(1)
transformers.logging.set_verbosity_error()

N, T = 6, 9
G = torch.Generator().manual_seed(3)
TOKENS = torch.randint(5, 50, (N, T), generator=G)
LABELS = torch.randint(0, 3, (N,), generator=G)
MASK = (torch.arange(T) < torch.tensor([9, 5, 7, 3, 9, 4]).unsqueeze(1)).long()
IMAGES = torch.randn(N, 3, 8, 8, generator=G)
SMALL = {"num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
OFF = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def gpt2(**options: Any) -> Any:
    config = transformers.GPT2Config(
        vocab_size=50, n_positions=16, n_embd=16, n_layer=2, n_head=2, bos_token_id=1,
        eos_token_id=2, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, **options,
    )  # fmt: skip
    return transformers.GPT2LMHeadModel(config)


def bert(**options: Any) -> Any:
    given = {"hidden_size": 16, "vocab_size": 50, **SMALL, **OFF, **options}
    config = transformers.BertConfig(max_position_embeddings=64, num_labels=3, **given)
    return transformers.BertForSequenceClassification(config)


def distilbert(**options: Any) -> Any:
    config = transformers.DistilBertConfig(
        vocab_size=50, dim=16, n_layers=2, n_heads=2, hidden_dim=32, max_position_embeddings=16,
        dropout=0.0, attention_dropout=0.0, seq_classif_dropout=0.0, num_labels=3, **options,
    )  # fmt: skip
    return transformers.DistilBertForSequenceClassification(config)


def vit(**options: Any) -> Any:
    config = transformers.ViTConfig(
        hidden_size=16, image_size=8, patch_size=4, num_labels=3, **SMALL, **OFF, **options
    )
    return transformers.ViTForImageClassification(config)


def t5(**options: Any) -> Any:
    config = transformers.T5Config(
        vocab_size=50, d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2, dropout_rate=0.0,
        decoder_start_token_id=0, pad_token_id=0, **options,
    )  # fmt: skip
    return transformers.T5ForConditionalGeneration(config)


CAUSAL = {"input_ids": TOKENS, "labels": TOKENS}
CLASSES = {"input_ids": TOKENS, "labels": LABELS}
MODELS: dict[str, tuple[Any, dict[str, Any]]] = {
    "gpt2": (gpt2, CAUSAL),
    "gpt2, padded": (gpt2, {**CAUSAL, "attention_mask": MASK}),
    "bert": (bert, CLASSES),
    "bert, padded": (bert, {**CLASSES, "attention_mask": MASK}),
    "distilbert, padded": (distilbert, {**CLASSES, "attention_mask": MASK}),
    "vit": (vit, {"pixel_values": IMAGES, "labels": LABELS}),
    "t5": (t5, {"input_ids": TOKENS, "attention_mask": MASK, "labels": TOKENS[:, :5].contiguous()}),
}


def loss(model: Any, batch: Any) -> Any:
    return model(**batch).loss


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("name", MODELS)
def test_a_model_with_its_own_loss(name: str, attention: str) -> None:
    """GPT-2's cache and BERT's (1, T) positions made these fall back, or be refused."""
    torch.manual_seed(0)
    make, batch = MODELS[name]
    model = make(attn_implementation=attention)
    if name.startswith("gpt2"):
        assert model.config.use_cache  # its default
    rows = one_by_one(model, loss, batch, N)
    engine = ClippedGradients(model)
    out = torch.zeros(engine.dimension, dtype=torch.float64)
    norms = engine.add(loss, batch, N, Flat(1e9).factors, out)
    assert torch.allclose(norms, rows.norm(dim=1), rtol=2e-5)
    assert float((out - rows.sum(0)).norm()) <= 2e-6 * float(rows.sum(0).norm())
    slow = [name for name, way in engine.layers.items() if "per record" in way]
    assert all("token" in n or "position" in n or "layer_norm" in n for n in slow)


def test_a_model_that_is_returned_whole_is_told() -> None:
    engine = ClippedGradients(bert())
    with pytest.raises(ValueError, match="returned a dict; return its loss"):
        engine.add(
            lambda m, b: m(**b), CLASSES, N, Flat(1.0).factors, torch.zeros(engine.dimension)
        )


def test_gradient_checkpointing_is_refused_with_what_to_do() -> None:
    model = bert()
    model.gradient_checkpointing_enable()
    model.train()
    engine = ClippedGradients(model)
    with pytest.raises(InvalidParameter, match=r"checkpoint"):
        engine.add(loss, CLASSES, N, Flat(1.0).factors, torch.zeros(engine.dimension))


def test_outputs_that_are_not_the_loss_may_be_used() -> None:
    torch.manual_seed(0)

    def losses(model: Any, batch: Any) -> Any:
        found = model(**batch, output_hidden_states=True)
        return found.loss + found.hidden_states[1].square().mean()

    model = bert()
    rows = one_by_one(model, losses, CLASSES, N)
    engine = ClippedGradients(model)
    out = torch.zeros(engine.dimension, dtype=torch.float64)
    engine.add(losses, CLASSES, N, Flat(1e9).factors, out)
    assert float((out - rows.sum(0)).norm()) <= 2e-6 * float(rows.sum(0).norm())


@pytest.mark.slow
def test_bert_costs_less_than_twice_plain_torch() -> None:
    """It cost 36 times plain: its (1, T) positions made every record run by itself."""
    torch.manual_seed(0)
    wide = {"hidden_size": 128, "intermediate_size": 512, "vocab_size": 1000}
    model = bert(hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1, **wide)
    size = 32
    batch = {
        "input_ids": torch.randint(5, 1000, (size, 32)), "labels": torch.randint(0, 3, (size,)),
        "attention_mask": torch.ones(size, 32, dtype=torch.long),
    }  # fmt: skip
    engine = ClippedGradients(model)
    out = torch.zeros(engine.dimension)

    def private() -> None:
        engine.add(loss, batch, size, Flat(1.0).factors, out.zero_())

    def plain() -> None:
        model.zero_grad()
        loss(model, batch).backward()

    best = {private: float("inf"), plain: float("inf")}
    for _ in range(12):
        for call in best:
            start = time.process_time()
            call()
            best[call] = min(best[call], time.process_time() - start)
    assert best[private] < 2.0 * best[plain]
