"""`lazywafer plan --serve`: presets, configurations and scripts, tables, pages, and refusals."""

import json

import pytest

from cstorch_compat.planning.recording import record_script
from lazytensor.errors import LazyError
from tests.conftest import ROOT, lazywafer
from wse_sim import Decoder, serve
from wse_sim.serving.decoder import PRESETS
from wse_sim.serving.traced_decoder import decoder_of_program

pytestmark = pytest.mark.slow

LLAMA = """
import torch, torch.nn as nn, torch.nn.functional as F

class Attention(nn.Module):
    def __init__(self, width, heads, kv_heads):
        super().__init__()
        self.heads, self.kv_heads, self.size = heads, kv_heads, width // heads
        self.q, self.o = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.k, self.v = (nn.Linear(width, kv_heads * self.size, bias=False) for _ in range(2))

    def forward(self, x):
        b, t, d = x.shape
        q = self.q(x).view(b, t, self.heads, self.size).transpose(1, 2)
        k, v = (part(x).view(b, t, self.kv_heads, self.size).transpose(1, 2) for part in (self.k, self.v))
        k, v = (part.repeat_interleave(self.heads // self.kv_heads, 1) for part in (k, v))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(mixed.transpose(1, 2).reshape(b, t, d))

class Block(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.norm1, self.norm2, self.attention = nn.RMSNorm(width), nn.RMSNorm(width), Attention(width, 8, 2)
        self.gate, self.up = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))

class Llama(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.head = nn.Embedding(101, 64), nn.Linear(64, 101, bias=False)
        self.layers, self.norm = nn.ModuleList(Block(64, 176) for _ in range(3)), nn.RMSNorm(64)

    def forward(self, x):
        x = self.tokens(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))

with torch.no_grad():
    Llama()(torch.randint(0, 101, (2, 24)))
"""
GPT2 = """
import torch, torch.nn as nn, torch.nn.functional as F

class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.norm1, self.norm2 = heads, nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (p.view(b, t, self.heads, -1).transpose(1, 2) for p in self.qkv(self.norm1(x)).split(d, 2))
        scores = q @ k.transpose(-2, -1) / (d // self.heads) ** 0.5
        scores = scores.masked_fill(torch.tril(torch.ones(t, t)) == 0, float("-inf"))
        x = x + self.out((F.softmax(scores, -1) @ v).transpose(1, 2).reshape(b, t, d))
        return x + self.down(F.gelu(self.up(self.norm2(x))))

class GPT2(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(101, 64), nn.Embedding(32, 64)
        self.layers, self.norm = nn.ModuleList(Block(64, 4) for _ in range(3)), nn.LayerNorm(64)
        self.head = nn.Linear(64, 101, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, x):
        x = self.tokens(x) + self.places(torch.arange(x.shape[1]))
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))

model = GPT2()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(2):
    x = torch.randint(0, 101, (2, 24))
    loss = F.cross_entropy(model(x).view(-1, 101), x.view(-1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
CLASSIFIER = """
import torch, torch.nn as nn

model = nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 3))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(2):
    optimizer.zero_grad()
    model(torch.randn(4, 16)).square().mean().backward()
    optimizer.step()
"""


def decoder_of(tmp_path, text):
    (tmp_path / "script.py").write_text(text)
    return decoder_of_program(record_script(str(tmp_path / "script.py")).program())


def test_script_with_grouped_queries_equals_its_table_of_extents(tmp_path):
    table = Decoder(layers=3, width=64, heads=8, kv_heads=2, hidden=176, vocabulary=101)
    assert decoder_of(tmp_path, LLAMA) == table


def test_training_script_with_one_matrix_for_all_heads_equals_its_table_of_extents(tmp_path):
    table = Decoder(layers=3, width=64, heads=4, kv_heads=4, hidden=256, vocabulary=101, is_gated=False, is_tied=True)
    assert decoder_of(tmp_path, GPT2) == table


@pytest.mark.parametrize(("name", "preset"), [("gpt2.py", "gpt2"), ("llama2_7b.py", "llama-2-7b")])
def test_published_script_equals_the_preset(name, preset):
    script = ROOT / "notebooks" / "scripts" / "published" / name
    assert decoder_of_program(record_script(str(script)).program()) == PRESETS[preset][0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (CLASSIFIER, "looks up no embedding"),
        (
            LLAMA.replace("nn.Linear(64, 101, bias=False)", "nn.Linear(64, 5, bias=False)"),
            "no product from 64 channels",
        ),
        (LLAMA.replace("Block(64, 176) for _", "Block(64, 176 + 8 * _) for _"), "differ"),
        (LLAMA.replace("self.attention(self.norm1(x))", "self.norm1(x)"), "no attention"),
        (LLAMA.replace("self.down(F", "self.gate(x).mean() + self.down(F"), "not those of attention and an MLP"),
    ],
)
def test_script_without_a_decoder_is_refused_with_a_hint(tmp_path, text, message):
    with pytest.raises(LazyError, match=message) as error:
        decoder_of(tmp_path, text)
    assert "config.json" in error.value.hint


def test_command_prints_the_plan_of_a_script(tmp_path):
    (tmp_path / "script.py").write_text(LLAMA)
    outcome = lazywafer("plan", "--serve", "--users", "4", "script.py", cwd=tmp_path)
    assert outcome.returncode == 0, outcome.stderr
    plan = serve(decoder_of(tmp_path, LLAMA), "wse2", users=4, name="script.py")
    assert outcome.stdout == plan.text() + "\n"


def test_table_has_a_row_for_each_combination_and_refusals_go_to_stderr(tmp_path):
    options = ["--machine", "wse2,wse3", "--systems", "1,8", "--users", "1,8"]
    outcome = lazywafer("plan", "--serve", *options, "llama-3-70b", cwd=tmp_path)
    assert outcome.returncode == 0
    rows = outcome.stdout.partition("\n\n")[0].splitlines()[1:]
    assert [row.split()[:3] for row in rows] == [[m, "8", users] for m in ("wse2", "wse3") for users in ("1", "8")]
    assert outcome.stderr.count("does not fit on 1 ") == 4
    # The bands of both machines, once each.
    assert outcome.stdout.count("(decoding, dense models") == 2
    assert outcome.stdout.count("Tokens/s count decoding only") == 1


def test_document_has_the_figures_and_their_error_bands(tmp_path):
    outcome = lazywafer("plan", "--serve", "--json", "--systems", "1,8", "llama-3-70b", cwd=tmp_path)
    document = json.loads(outcome.stdout)
    assert document["version"] == 1
    assert document["decoder"]["layers"] == 80
    assert len(document["plans"]) == len(document["refusals"]) == 1
    (plan,) = document["plans"]
    assert plan["tokens_per_s_user"] == serve("llama-3-70b", "wse2", wafers=8).tokens_per_s_user
    assert plan["error_bands"]["decoding"]["median"] >= 1
    assert "GB are missing" in document["refusals"][0]["what"]


def test_page_has_a_section_with_each_plan(tmp_path):
    options = ["--html", "page.html", "--machine", "wse2,wse3"]
    outcome = lazywafer("plan", "--serve", *options, "llama-3-8b", cwd=tmp_path)
    assert outcome.returncode == 0, outcome.stderr
    page = (tmp_path / "page.html").read_text()
    data = json.loads(page.partition('id="data">')[2].partition("</script>")[0])
    assert [plan["plan"]["machine"] for plan in data["serving"]] == ["wse2", "wse3"]
    assert "A user gets about" in page.partition('id="verdict">')[2].partition("</p>")[0]


def test_script_without_serve_has_no_section_of_serving(tmp_path):
    (tmp_path / "script.py").write_text(CLASSIFIER)
    outcome = lazywafer("plan", "--machine", "tiny", "--html", "page.html", "script.py", cwd=tmp_path)
    assert outcome.returncode == 0, outcome.stderr
    data = (tmp_path / "page.html").read_text().partition('id="data">')[2].partition("</script>")[0]
    assert json.loads(data)["serving"] == []


@pytest.mark.parametrize(
    ("options", "status", "message"),
    [
        (["--serve", "llama-9"], 1, "model 'llama-9' is unknown"),
        (["--serve", "no.json"], 1, "no.json cannot be read"),
        (["--serve", "no.py"], 2, "no.py does not exist"),
        (["--serve", "llama-3.1-405b"], 1, "GB are missing"),
        (["--serve", "--batch", "3", "gpt2"], 2, "--batch: only without --serve"),
        (["--users", "3", "script.py"], 2, "--users: only with --serve"),
        (["--serve", "--users", "0", "gpt2"], 2, "--users"),
        (["--serve", "--systems", "9999", "gpt2"], 2, "at most 4,096"),
        (["--serve", "--weight-bits", "4", "gpt2"], 2, "--weight-bits"),
        (["--serve", "--html", "no/page.html", "gpt2"], 2, "--html"),
    ],
)
def test_wrong_command_line_is_refused(tmp_path, options, status, message):
    (tmp_path / "script.py").write_text(CLASSIFIER)
    outcome = lazywafer("plan", *options, cwd=tmp_path)
    assert outcome.returncode == status
    assert message in outcome.stderr
    assert not outcome.stdout
