"""timm (pip install timm): five steps of SGD for each of its small models, on random images."""

import sys

import timm
import torch
from torch.nn import functional as F

MODELS = {
    64: """resnet18 resnet50 mobilenetv3_small_100 efficientnet_b0 convnext_atto regnetx_002 regnety_002 densenet121
    ghostnet_100 edgenext_xx_small mobilevit_xxs poolformer_s12 repvgg_a0 seresnet18 hrnet_w18_small nfnet_l0
    mobilenetv4_conv_small fastvit_t8 convmixer_768_32""",
    128: "inception_v3",
    224: """vit_tiny_patch16_224 deit_tiny_patch16_224 mixer_s32_224 swin_tiny_patch4_window7_224 levit_128s
    xcit_nano_12_p16_224 pit_ti_224 gmlp_ti16_224 cait_xxs24_224 coat_tiny tiny_vit_5m_224 davit_tiny
    volo_d1_224 efficientformer_l1 hiera_tiny_224""",
    256: "botnet26t_256 swinv2_tiny_window8_256 maxvit_rmlp_pico_rw_256 lambda_resnet26t halonet26t",
    336: "eva02_tiny_patch14_336",
}
"""Names of models, by the height and width of their images in pixels."""

for size, name in ((size, name) for size, names in MODELS.items() for name in names.split()):
    if len(sys.argv) > 1 and name not in sys.argv[1:]:
        continue
    torch.manual_seed(0)
    model = timm.create_model(name, num_classes=10)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    images, labels = torch.randn(2, 3, size, size), torch.tensor([1, 7])
    for _ in range(5):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        print(name, loss.item())
