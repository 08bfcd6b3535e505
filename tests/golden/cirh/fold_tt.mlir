module  {
  func @graph(%arg0: tensor<4x6xf32> {cs.input_name = "input_0"}) -> (tensor<4x6xf32> {cs.output_name = "output_o"}) attributes {cs.fp16_type = "float16", cs.pol = 1 : i64} {
    %cst = cirh.Const dense<[1, 0]> : tensor<2xi64>
    %0 = cirh.Transpose %arg0, %cst : (tensor<4x6xf32>, tensor<2xi64>) -> tensor<6x4xf32>
    %1 = cirh.Transpose %0, %cst : (tensor<6x4xf32>, tensor<2xi64>) -> tensor<4x6xf32>
    return %1 : tensor<4x6xf32>
  }
}
