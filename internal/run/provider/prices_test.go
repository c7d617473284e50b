package provider

import (
	"bytes"
	"testing"

	"tallystick/internal/run/cassette"
	"tallystick/internal/run/wire"
)

func TestTheShippedPricesAreSound(t *testing.T) {
	list, err := parsePrices(shippedText)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for provider, models := range list {
		for name, p := range models {
			n++
			m, err := p.model()
			if err != nil {
				t.Errorf("%s: %s: %v", provider, name, err)
			}
			// A price in dollars, or one with a digit too many, is far outside.
			if p.Input < 10_000 || p.Input > 100_000_000 || p.Output != 0 && p.Output < p.Input || m.Price.CacheRead > p.Input || m.Price.CacheWriteLong < m.Price.CacheWrite {
				t.Errorf("%s: %s costs %+v", provider, name, m.Price)
			}
		}
	}
	if n < 30 || !bytes.Contains(shippedText, []byte("As of 20")) {
		t.Errorf("%d models", n)
	}
}

func TestShippedPricesAreForTheProvidersOwnServers(t *testing.T) {
	price := func(text, model string) (cassette.Price, bool) {
		p, ok := parseSettings(t, "version: 1\n"+text).Prices()[model]
		return p, ok
	}
	own, ok := price("openai: {key_env: A}", "gpt-4o")
	if !ok || own.Input != 2_500_000 || own.CacheRead != 1_250_000 {
		t.Errorf("%+v %v", own, ok)
	}
	if p, ok := price("openai: {key_env: A}", "gpt-of-tomorrow"); ok {
		t.Errorf("an unknown model costs %+v", p)
	}
	if p, ok := price("openai: {base_url: \"http://127.0.0.1:1/v1\"}", "gpt-4o"); ok {
		t.Errorf("on a server of ours it costs %+v", p)
	}
	if p, _ := price("openai: {prices: {gpt-4o: {input: 7, output: 8}}}", "gpt-4o"); p.Input != 7 {
		t.Errorf("the settings do not count before the list: %+v", p)
	}
	if p, ok := price("openai: {prices: {\"*\": {input: 0, output: 0}}}", "gpt-4o"); ok {
		t.Errorf("although every model costs nothing, it costs %+v", p)
	}
	s := parseSettings(t, "version: 1\nopenai: {key_env: A}")
	if err := (&Access{Settings: s, keys: map[string]string{"A": "a-key-of-the-test"}}).CheckModel(wire.OpenAIChat, "gpt-4o", 0); err != nil {
		t.Errorf("a listed model has no bound: %v", err)
	}
}

func TestThePricesDigestFollowsEachPrice(t *testing.T) {
	seen := map[string]string{}
	for _, text := range []string{"openai: {key_env: A}", "openai: {prices: {gpt-4o: {input: 7, output: 8}}}", "openai: {prices: {gpt-4o: {input: 7, output: 9}}}",
		"openai: {prices: {gpt-4o: {input: 7, output: 9, max_output_tokens: 5}}}", "anthropic: {key_env: A}", "openai: {base_url: \"http://127.0.0.1:1/v1\"}"} {
		d, err := parseSettings(t, "version: 1\n"+text).PricesDigest()
		if err != nil {
			t.Fatal(err)
		}
		if other := seen[d.String()]; other != "" {
			t.Errorf("%s and %s have one digest", text, other)
		}
		seen[d.String()] = text
	}
	// A price that is written down again is the same price.
	a, _ := parseSettings(t, "version: 1\nopenai: {key_env: A}").PricesDigest()
	b, _ := parseSettings(t, "version: 1\nopenai: {prices: {gpt-4o: {input: 2500000, output: 10000000, cache_read: 1250000, max_input_tokens: 128000, max_output_tokens: 16384}}}").PricesDigest()
	if a != b {
		t.Error("equal prices have two digests")
	}
}
