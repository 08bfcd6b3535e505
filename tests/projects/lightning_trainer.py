"""Train a small classifier with lightning's Trainer on the CPU.

Packages: lightning, lightning-utilities, torchmetrics.
"""

import logging
import tempfile
import warnings

import lightning
import torch
from torch.nn import functional


class Classifier(lightning.LightningModule):
    """A network of two layers that prints the loss of each step."""

    def __init__(self):
        super().__init__()
        self.save_hyperparameters()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Dropout(0.1), torch.nn.Linear(16, 3)
        )

    def training_step(self, batch, index):
        x, y = batch
        loss = functional.cross_entropy(self.layers(x), y)
        self.log("train_loss", loss)
        print(loss.item())
        return loss

    def validation_step(self, batch, index):
        x, y = batch
        self.log("valid_loss", functional.cross_entropy(self.layers(x), y))

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=0.05)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)]


def main():
    warnings.simplefilter("ignore")
    for name in ("lightning", "lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    lightning.seed_everything(0)
    torch.manual_seed(0)
    x = torch.randn(48, 8)
    data = torch.utils.data.TensorDataset(x, x[:, :3].argmax(1))
    train = torch.utils.data.DataLoader(data, batch_size=16, shuffle=True)
    valid = torch.utils.data.DataLoader(data, batch_size=16)
    with tempfile.TemporaryDirectory() as folder:
        trainer = lightning.Trainer(
            max_steps=5,
            accelerator="cpu",
            devices=1,
            logger=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            default_root_dir=folder,
            gradient_clip_val=1.0,
        )
        model = Classifier()
        trainer.fit(model, train, valid)
        trainer.save_checkpoint(f"{folder}/last.ckpt")
        again = Classifier.load_from_checkpoint(f"{folder}/last.ckpt")
        assert all(torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters(), strict=True))


main()
