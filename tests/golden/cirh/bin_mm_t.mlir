module  {
  func @graph(%arg0: tensor<4x6xf32> {cs.input_name = "input_1"}, %arg1: tensor<4x6xf32> {cs.input_name = "input_0"}) -> (tensor<4x4xf16> {cs.output_name = "output_o"}) attributes {cs.fp16_type = "float16", cs.pol = 1 : i64} {
    %cst = cirh.Const dense<[1, 0]> : tensor<2xi64>
    %0 = cirh.Transpose %arg0, %cst : (tensor<4x6xf32>, tensor<2xi64>) -> tensor<6x4xf32>
    %1 = cirh.Cast %0 {Truncate = false} : tensor<6x4xf32> -> tensor<6x4xf16>
    %2 = cirh.Cast %arg1 {Truncate = false} : tensor<4x6xf32> -> tensor<4x6xf16>
    %3 = cirh.MatMul %2, %1 {cs.internal = {}, transpose_a = false, transpose_b = false} : (tensor<4x6xf16>, tensor<6x4xf16>) -> tensor<4x4xf16>
    return %3 : tensor<4x4xf16>
  }
}

