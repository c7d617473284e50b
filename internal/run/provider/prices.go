package provider

import (
	_ "embed"
	"fmt"
	"reflect"
	"slices"
	"sync"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/strictyaml"
	"tallystick/internal/run/cassette"
	"tallystick/internal/run/wire"
)

//go:embed prices.yaml
var shippedText []byte

// shippedPrices is the price list that comes with the program, by provider and model.
// It says what the provider's own servers cost; a server that somebody else runs
// under the same name of a model costs what its operator says.
var shippedPrices = sync.OnceValue(func() map[string]map[string]priceFile {
	list, err := parsePrices(shippedText)
	if err != nil {
		panic(err) // a test reads it
	}
	return list
})

func parsePrices(text []byte) (map[string]map[string]priceFile, error) {
	fields := []reflect.StructField{
		{Name: "Version", Type: reflect.TypeFor[int](), Tag: `json:"version"`},
		{Name: "AsOf", Type: reflect.TypeFor[string](), Tag: `json:"as_of"`},
	}
	for i, p := range wire.Providers() {
		fields = append(fields, reflect.StructField{Name: fmt.Sprint("Provider", i), Type: reflect.TypeFor[map[string]priceFile](), Tag: reflect.StructTag(`json:"` + p.Name + `,omitempty"`)})
	}
	file := reflect.New(reflect.StructOf(fields))
	if _, err := strictyaml.Decode("prices.yaml", text, settingsRules, file.Interface()); err != nil {
		return nil, err
	}
	list := map[string]map[string]priceFile{}
	for i, p := range wire.Providers() {
		list[p.Name] = file.Elem().Field(2 + i).Interface().(map[string]priceFile)
	}
	return list, nil
}

// addShipped gives the models of a provider's own servers the shipped prices,
// where the settings have none. A price for every model ("*") is one.
func (e *Endpoint) addShipped(p *wire.Provider) error {
	if _, any := e.Models[cassette.AnyModel]; any || e.BaseURL != p.BaseURL {
		return nil
	}
	for name, price := range shippedPrices()[p.Name] {
		if _, own := e.Models[name]; own {
			continue
		}
		m, err := price.model()
		if err != nil {
			return err
		}
		e.Models[name] = m
	}
	return nil
}

// PricesDigest names the prices in force, for the plan of an attempt: those of the
// settings and those that were shipped, by provider and model. Equal prices have
// equal digests, wherever they are from.
func (s *Settings) PricesDigest() (digest.Content, error) {
	type priced struct {
		CacheRead       int64  `json:"cache_read"`
		CacheWrite      int64  `json:"cache_write"`
		CacheWriteLong  int64  `json:"cache_write_long"`
		Input           int64  `json:"input"`
		MaxInputTokens  int64  `json:"max_input_tokens"`
		MaxOutputTokens int64  `json:"max_output_tokens"`
		Model           string `json:"model"`
		Output          int64  `json:"output"`
		Provider        string `json:"provider"`
	}
	list := []priced{}
	for _, e := range s.Endpoints {
		for name, m := range e.Models {
			list = append(list, priced{m.Price.CacheRead, m.Price.CacheWrite, m.Price.CacheWriteLong, m.Price.Input, m.MaxInput, m.MaxOutput, name, m.Price.Output, e.Provider})
		}
	}
	slices.SortFunc(list, func(a, b priced) int {
		if a.Provider != b.Provider {
			return slices.Index(wire.ProviderNames(), a.Provider) - slices.Index(wire.ProviderNames(), b.Provider)
		}
		if a.Model < b.Model {
			return -1
		}
		return 1
	})
	text, err := canon.Marshal(list)
	return digest.ContentOf(text), err
}
