package safetensors_test

import (
	"bytes"
	"fmt"

	"github.com/lathe-rl/lathe/pkg/safetensors"
)

// A matrix of two rows and three columns, row after row, is stored in bfloat16
// and read back as float32: 1.01 is not a bfloat16.
func Example() {
	var file bytes.Buffer
	err := safetensors.Write(&file, []safetensors.Tensor{
		{Name: "weight", Shape: []int{2, 3}, DType: safetensors.BF16, Data: []float32{1, 2, 3, -0.5, 0, 1.01}},
		{Name: "bias", Shape: []int{2}, Data: []float32{0.1, 0.2}},
	}, map[string]string{"format": "pt"})
	if err != nil {
		panic(err)
	}

	f, err := safetensors.Read(bytes.NewReader(file.Bytes()), int64(file.Len()), "memory")
	if err != nil {
		panic(err)
	}
	defer f.Close()
	for _, t := range f.Tensors() {
		values := make([]float32, t.Elements())
		if err := f.Float32To(values, t.Name); err != nil {
			panic(err)
		}
		fmt.Println(t.Name, t.DType, t.Shape, values)
	}
	// Output:
	// weight BF16 [2 3] [1 2 3 -0.5 0 1.0078125]
	// bias F32 [2] [0.1 0.2]
}

// A part of a tensor is read without the rest, from an element on.
func ExampleFile_Float32At() {
	var file bytes.Buffer
	if err := safetensors.Write(&file, []safetensors.Tensor{{Name: "table", Shape: []int{3, 2}, Data: []float32{1, 2, 3, 4, 5, 6}}}, nil); err != nil {
		panic(err)
	}
	f, err := safetensors.Read(bytes.NewReader(file.Bytes()), int64(file.Len()), "memory")
	if err != nil {
		panic(err)
	}
	defer f.Close()
	row := make([]float32, 2)
	if err := f.Float32At(row, "table", 2*2); err != nil { // row 2
		panic(err)
	}
	fmt.Println(row)
	// Output: [5 6]
}
