package wire

import (
	"encoding/json"
	"testing"

	"github.com/valyala/fastjson"
)

func TestTextsOfJSONAreReadWhole(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		`""`, `"a"`, `"\"\\\/\b\f\n\r\t"`, `"\u0000\u001f\u007f"`, `"\u003cpod\u003e \u0026"`, `"é 漢 😀"`,
		`"\u00e9 \u6f22 \ud83d\ude00"`,
		"\"\xff\"", `"{\"kind\":\"Event\",\"message\":\"line\\nline\"}"`,
	} {
		var want string
		if err := json.Unmarshal([]byte(body), &want); err != nil {
			t.Fatal(err)
		}
		value, err := fastjson.Parse(body)
		if err != nil {
			t.Fatal(err)
		}
		if got := jsonText(value.GetStringBytes()); got != want {
			t.Errorf("%s is read as %q, want %q", body, got, want)
		}
	}
}
