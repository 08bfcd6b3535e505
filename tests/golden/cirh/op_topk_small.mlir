module  {
  func @graph(%arg0: tensor<4x6xf32> {cs.input_name = "input_0"}) -> (tensor<3x6xf32> {cs.output_name = "output_o"}) attributes {cs.fp16_type = "float16", cs.pol = 1 : i64} {
    %topKValues, %topKIndices = cirh.TopK %arg0 {dimension = 0 : i32, k = 3 : i32, largest = false, sorted = true} : (tensor<4x6xf32>) -> (tensor<3x6xf32>, tensor<3x6xi64>)
    return %topKValues : tensor<3x6xf32>
  }
}

