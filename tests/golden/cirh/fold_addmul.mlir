module  {
  func @graph(%arg0: tensor<4x6xf32> {cs.input_name = "input_0"}) -> (tensor<4x6xf32> {cs.output_name = "output_o"}) attributes {cs.fp16_type = "float16", cs.pol = 1 : i64} {
    %cst = cirh.Const dense<1.000000e+00> : tensor<4x6xf32>
    %cst_0 = cirh.Const dense<0.000000e+00> : tensor<4x6xf32>
    %0 = cirh.Add %cst_0, %cst : tensor<4x6xf32>
    %1 = cirh.Add %0, %arg0 : tensor<4x6xf32>
    return %1 : tensor<4x6xf32>
  }
}
