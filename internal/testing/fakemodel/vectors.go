package fakemodel

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math"

	"tallystick/internal/run/wire"
)

// usualDimensions is how long a vector is whose request does not say.
const usualDimensions = 3

// vectors answers a request for vectors: one for each input, made of its bytes,
// so that equal inputs have equal vectors.
func vectors(q Request, a *wire.Answer) string {
	var request struct {
		Input          json.RawMessage
		Requests       []json.RawMessage
		Content        json.RawMessage
		Dimensions     int
		EncodingFormat string `json:"encoding_format"`
	}
	if err := json.Unmarshal(q.Body, &request); err != nil {
		panic(err)
	}
	if request.Dimensions == 0 {
		request.Dimensions = usualDimensions
	}
	inputs := request.Requests
	switch {
	case request.Content != nil:
		inputs = []json.RawMessage{request.Content}
	case request.Input != nil:
		inputs = inputsOf(request.Input)
	}
	var list [][]float64
	for _, input := range inputs {
		list = append(list, vectorOf(input, request.Dimensions))
	}
	var text any = list
	if request.Content != nil {
		text = list[0]
	}
	spelled, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	a.Text = string(spelled)
	body, err := wire.Body(q.API, a)
	if err != nil {
		panic(err)
	}
	if request.EncodingFormat == "base64" {
		for _, v := range list {
			spelled, _ := json.Marshal(v)
			body = bytes.Replace(body, spelled, fmt.Appendf(nil, "%q", packed(v)), 1)
		}
	}
	return string(body)
}

// inputsOf tells one input from many: a text or a list of tokens is one.
func inputsOf(input json.RawMessage) []json.RawMessage {
	var many []json.RawMessage
	if json.Unmarshal(input, &many) != nil || len(many) > 0 && many[0][0] != '"' && many[0][0] != '[' {
		return []json.RawMessage{input}
	}
	return many
}

func vectorOf(input []byte, dimensions int) []float64 {
	v := make([]float64, dimensions)
	for i := range v {
		h := fnv.New32a()
		fmt.Fprint(h, i, string(input))
		v[i] = float64(h.Sum32()%7+1) / 8 // exact in 32 bits
	}
	return v
}

// packed is a vector as clients ask for it who want base64: its numbers in 32 bits.
func packed(v []float64) string {
	var b []byte
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(x)))
	}
	return base64.StdEncoding.EncodeToString(b)
}
