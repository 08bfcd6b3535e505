"""github.com/graykode/nlp-tutorial, in the folder nlp-tutorial (needs matplotlib): its scripts as they are.

Each script runs until it has printed five losses. Scripts that print every thousandth loss print each one here.
"""

import os
import random
import re
import sys

import matplotlib
import numpy as np
import torch

matplotlib.use("agg")
FOLDER = os.path.join(os.environ["PROJECTS"], "nlp-tutorial")
SCRIPTS = [
    "1-1.NNLM/NNLM.py",
    "1-2.Word2Vec/Word2Vec-Skipgram(Softmax).py",
    "2-1.TextCNN/TextCNN.py",
    "3-1.TextRNN/TextRNN.py",
    "3-2.TextLSTM/TextLSTM.py",
    "3-3.Bi-LSTM/Bi-LSTM.py",
    "4-1.Seq2Seq/Seq2Seq.py",
    "4-2.Seq2Seq(Attention)/Seq2Seq(Attention).py",
    "4-3.Bi-LSTM(Attention)/Bi-LSTM(Attention).py",
    "5-1.Transformer/Transformer.py",
    "5-1.Transformer/Transformer(Greedy_decoder).py",
    "5-2.BERT/BERT.py",
]


class Finished(Exception):
    """Raised when a script has printed five losses."""


for path in SCRIPTS:
    name = os.path.basename(path)
    if len(sys.argv) > 1 and name not in sys.argv[1:]:
        continue
    for seed in (torch.manual_seed, np.random.seed, random.seed):
        seed(0)
    with open(os.path.join(FOLDER, path)) as file:
        text = re.sub(r"% (10|100|500|1000) == 0", "% 1 == 0", file.read())
    count = 0

    def shown(*words, name=name, **_):
        global count
        if "cost" in " ".join(map(str, words)):
            print(name, words[-1])
            count += 1
            if count == 5:
                raise Finished

    try:
        exec(compile(text, name, "exec"), {"__name__": "__main__", "print": shown})
    except Finished:
        continue
