"""Train with ignite's engine, with metrics and handlers.

Packages: pytorch-ignite.
"""

import torch
from ignite.engine import Events, create_supervised_evaluator, create_supervised_trainer
from ignite.handlers import PiecewiseLinear
from ignite.metrics import Accuracy, Loss, RunningAverage


def main():
    torch.manual_seed(0)
    x = torch.randn(40, 6)
    y = x[:, :3].argmax(1)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=8, shuffle=True)
    model = torch.nn.Sequential(
        torch.nn.Linear(6, 12), torch.nn.BatchNorm1d(12), torch.nn.ReLU(), torch.nn.Linear(12, 3)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    criterion = torch.nn.CrossEntropyLoss()
    trainer = create_supervised_trainer(model, optimizer, criterion)
    evaluator = create_supervised_evaluator(model, {"accuracy": Accuracy(), "loss": Loss(criterion)})
    RunningAverage(output_transform=lambda loss: loss).attach(trainer, "average")
    rates = PiecewiseLinear(optimizer, "lr", milestones_values=[(0, 0.1), (4, 0.02)])
    trainer.add_event_handler(Events.ITERATION_STARTED, rates)

    @trainer.on(Events.ITERATION_COMPLETED)
    def show(engine):
        evaluator.run(loader)
        print(engine.state.output + engine.state.metrics["average"] + evaluator.state.metrics["loss"])

    trainer.run(loader, max_epochs=1)


main()
