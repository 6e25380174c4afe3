#!/usr/bin/env python3
"""Small configurations of transformers with random weights, as torch exports them, are read and asked, and none is blamed.

Usage: zoo.py ATTEST [FAMILY...]
Each is exported by torch's present exporter, at its own version and at 23 (Attention, RMSNormalization, RotaryEmbedding), and by TorchScript, and asked
by `attest check`. 1 where one is refused or blamed, and where one with an operator of nobody's is not refused. Skipped (125) without the packages;
written for torch 2.15.0, transformers 5.24.0, onnxscript 0.7.2, onnx 1.23.2 and onnxruntime 1.31.1.
"""
import os
import sys
import tempfile
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))
from need_package import need

for package in ("transformers", "torch", "onnxscript", "onnxruntime"):
    need(package, "pip install torch transformers onnxscript onnx onnxruntime")
os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}
warnings.filterwarnings("ignore")
import onnx
import torch
import transformers as tf

from asked import Tally

SIZES = dict(vocab_size=99, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48)
POSITIONS = SIZES | dict(max_position_embeddings=80)
DECODER = POSITIONS | dict(num_key_value_heads=2, use_cache=False)
ENCODER = dict(vocab_size=99, d_model=32, encoder_layers=2, encoder_attention_heads=4, decoder_layers=2, decoder_attention_heads=4, encoder_ffn_dim=48,
               decoder_ffn_dim=48, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1)
TEXT = {"input_ids": torch.arange(14).reshape(2, 7) + 3, "attention_mask": (torch.arange(14).reshape(2, 7) < 11).long()}
PIXELS = {"pixel_values": torch.linspace(-1, 1, 1536).reshape(2, 3, 16, 16)}
SOUND = {"input_features": torch.linspace(-1, 1, 640).reshape(2, 8, 40)}
FAMILIES = {
    "bert": (tf.BertModel, tf.BertConfig(**POSITIONS), TEXT),
    "roberta": (tf.RobertaModel, tf.RobertaConfig(**POSITIONS), TEXT),
    "albert": (tf.AlbertModel, tf.AlbertConfig(**POSITIONS, embedding_size=16), TEXT),
    "electra": (tf.ElectraModel, tf.ElectraConfig(**POSITIONS, embedding_size=16), TEXT),
    "distilbert": (tf.DistilBertModel, tf.DistilBertConfig(vocab_size=99, dim=32, n_layers=2, n_heads=4, hidden_dim=48, max_position_embeddings=80), TEXT),
    "mpnet": (tf.MPNetModel, tf.MPNetConfig(**POSITIONS), TEXT),
    "deberta": (tf.DebertaV2Model, tf.DebertaV2Config(**POSITIONS, relative_attention=True, pos_att_type=["p2c", "c2p"], position_buckets=16,
                                                      type_vocab_size=0), TEXT),
    "modernbert": (tf.ModernBertModel, tf.ModernBertConfig(**POSITIONS, pad_token_id=0, bos_token_id=1, eos_token_id=2, cls_token_id=1, sep_token_id=2), TEXT),
    "gpt2": (tf.GPT2LMHeadModel, tf.GPT2Config(vocab_size=99, n_positions=80, n_embd=32, n_layer=2, n_head=4, use_cache=False), TEXT),
    "llama": (tf.LlamaForCausalLM, tf.LlamaConfig(**DECODER), TEXT),
    "qwen2": (tf.Qwen2ForCausalLM, tf.Qwen2Config(**DECODER), TEXT),
    "gemma": (tf.GemmaForCausalLM, tf.GemmaConfig(**DECODER, head_dim=8), TEXT),
    "t5": (tf.T5EncoderModel, tf.T5Config(vocab_size=99, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4), TEXT),
    "vit": (tf.ViTModel, tf.ViTConfig(**{k: v for k, v in SIZES.items() if k != "vocab_size"}, image_size=16, patch_size=4), PIXELS),
    "whisper": (lambda config: tf.WhisperModel(config).encoder, tf.WhisperConfig(**ENCODER, num_mel_bins=8, max_source_positions=20), SOUND),
}
# A failure that docs/findings.md has.
KNOWN = {"t5-23": "ort-attention-3"}


class First(torch.nn.Module):
    """A model's first output, of inputs by position."""

    def __init__(self, model, names):
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *inputs):
        return self.model(**dict(zip(self.names, inputs)), return_dict=False)[0]


def export(family, way, path):
    torch.manual_seed(0)
    make, config, feeds = FAMILIES[family]
    model = First(make(config).eval(), list(feeds)).eval()
    named = dict(input_names=list(feeds), output_names=["out"])
    open_axes = {name: range(2 if x.dtype == torch.int64 else 1) for name, x in feeds.items()}
    with torch.no_grad():
        if way == "script":
            torch.onnx.export(model, tuple(feeds.values()), path, dynamo=False, opset_version=17, **named,
                              dynamic_axes={name: {k: "batch length".split()[k] for k in axes} for name, axes in open_axes.items()})
        else:
            shapes = tuple({k: torch.export.Dim.AUTO for k in axes} for axes in open_axes.values())
            torch.onnx.export(model, tuple(feeds.values()), path, dynamo=True, dynamic_shapes=(shapes,), verbose=False, **named,
                              **({"opset_version": 23} if way == "23" else {}))


def main(arguments):
    tally, families = Tally(Path(arguments[0]).absolute(), KNOWN), arguments[1:] or list(FAMILIES)
    with tempfile.TemporaryDirectory() as folder:
        for name, way in [(family, way) for family in families for way in ("present", "23", "script")]:
            path = Path(folder) / f"{name}-{way}.onnx"
            export(name, way, path)
            tally.put(path.stem, path, "--cases", "6", "--laws", "1")
        model = onnx.load(path)
        model.graph.node[0].domain = "nobody"
        onnx.save(model, path)
        tally.put("an operator of nobody's", path, refusal=f"does not evaluate nobody.{model.graph.node[0].op_type}")
    return tally.end(f"torch {torch.__version__}, transformers {tf.__version__}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
