module {
  func.func @graph() {
    %0 = torch.aten.batch(index = 0, name = 'input', type = tensor<4x3xf32>) : tensor<4x3xf32>
    %1 = torch.aten.reduce(%0, kind = 'add', dims = (0, 1), keepdim = False) : tensor<f32> loc("/aten::reduce"("/tmp/wt/data/tests/cstorch_compat/test_executor.py":116:0))
    return %1
  }
}
