package configtest

import (
	"fmt"
	"reflect"

	"pgregory.net/rapid"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/plainjson"
)

// Any fills a value with anything that its type can hold and that YAML
// can carry.
func Any(t *rapid.T, v reflect.Value, label string) {
	switch v.Kind() {
	case reflect.Interface:
		if !v.IsNil() { // an inline part: what it points to
			Any(t, v.Elem().Elem(), label)
		}
	case reflect.Pointer:
		if rapid.Bool().Draw(t, label+"?") {
			v.Set(reflect.New(v.Type().Elem()))
			Any(t, v.Elem(), label)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			Any(t, v.Field(i), label+"."+v.Type().Field(i).Name)
		}
	case reflect.Slice:
		if variants, ok := v.Interface().(config.Variants); ok {
			for _, variant := range variants {
				Any(t, reflect.ValueOf(variant.Settings).Elem(), label+"."+variant.Name)
			}
			return
		}
		if menu, ok := v.Interface().(config.Menu); ok {
			v.SetZero()
			offers := menu.Offers()
			_, single := menu.(config.Single)
			if single {
				i := rapid.IntRange(0, len(offers)-1).Draw(t, label+"#")
				offers = offers[i : i+1]
			}
			for _, offer := range offers {
				if single || rapid.Bool().Draw(t, label+"."+offer.Name+"?") {
					Any(t, reflect.ValueOf(offer.Settings).Elem(), label+"."+offer.Name)
					v.Set(reflect.Append(v, reflect.ValueOf(config.Pick{Name: offer.Name, Settings: offer.Settings})))
				}
			}
			return
		}
		if n := rapid.IntRange(0, 3).Draw(t, label+"#"); n > 0 {
			v.Set(reflect.MakeSlice(v.Type(), n, n))
			for i := range n {
				Any(t, v.Index(i), fmt.Sprintf("%s.%d", label, i))
			}
		}
	case reflect.Map:
		if n := rapid.IntRange(0, 3).Draw(t, label+"#"); n > 0 {
			v.Set(reflect.MakeMap(v.Type()))
			for i := range n {
				value := reflect.ValueOf(anyText(t, label))
				if v.Type().Elem() == reflect.TypeFor[config.Scalar]() {
					value = reflect.ValueOf(anyScalar(t, label))
				}
				v.SetMapIndex(reflect.ValueOf(fmt.Sprintf("KEY_%d", i)), value)
			}
		}
	case reflect.String:
		v.SetString(anyText(t, label))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, label))
	case reflect.Int:
		v.SetInt(rapid.Int64().Draw(t, label))
	case reflect.Uint64:
		v.SetUint(rapid.Uint64().Draw(t, label))
	case reflect.Float64:
		v.SetFloat(rapid.Float64().Draw(t, label) + 0)
	default:
		t.Fatalf("%s: a field of kind %s", label, v.Kind())
	}
}

// anyScalar draws a value of any type, as JSON.
func anyScalar(t *rapid.T, label string) config.Scalar {
	if other := rapid.SampledFrom([]config.Scalar{"", "true", "false", "7", "-2.5"}).Draw(t, label); other != "" {
		return other
	}
	text, err := plainjson.Line(anyText(t, label))
	if err != nil {
		t.Fatal(err)
	}
	return config.Scalar(text)
}

// anyText draws text that YAML readers are known to trip over, besides any
// other.
func anyText(t *rapid.T, label string) string {
	tricky := rapid.SampledFrom([]string{
		"", " ", "~", "null", "true", "no", "1", "1e5", "0x1F", "010", ".inf", "-", "- a", "a: b", "a #b", "#", "####",
		"{question}=", "[", "]", "}", ",", "&a", "*a", "!a", "%a", "@a", "`a", "|", ">", "'", "\"", "\\", "\\n", "a\nb",
		"a\n", "\na", "a\n\nb", " a\nb", "a \nb", "a\n b", "\t", "a\tb", "a\r\nb", "é", "日本", "😀", "\u2028", "\ufeff", "\u0085",
		"---", "...", "--- a", "a\n---\nb", "a\n...\nb", "=", "<<", "? a", ": a", "a:", "\x7f", "#\n#", "- a\n- b", "a: b\nc: d", "\u00a0\nx",
	})
	return rapid.OneOf(tricky, rapid.StringN(0, 12, -1), rapid.StringMatching(`[a-z{}_ :#\n-]{0,16}`)).Draw(t, label)
}
