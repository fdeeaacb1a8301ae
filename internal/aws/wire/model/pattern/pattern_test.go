package pattern

import "testing"

func TestCompile(t *testing.T) {
	tests := []struct {
		pattern, text string
		match         bool
	}{
		{`[\w+=,.@-]+`, "role@x", true},
		{`[\w+=,.@-]+`, "role x", false},
		{`^[0-9A-Za-z][A-Za-z0-9\-_]*`, "dev/x", false},
		{`(\u002F)|(\u002F[\u0021-\u007E]+\u002F)`, "/team/", true},
		{`(\u002F)|(\u002F[\u0021-\u007E]+\u002F)`, "team", false},
		{`[\u0020-\uD7FF\uE000-\uFFFD\uD800\uDC00-\uDBFF\uDFFF\r\n\t]*`, "tag \U0001F6F6", true},
		{`[\u0009\u000A\u000D\u0020-\u007E\u0085\u00A0-\uD7FF\uE000-\uFFFD\u10000-\u10FFFF]+`, "arn:\x01", false},
	}
	for _, tt := range tests {
		re, err := Compile(tt.pattern)
		if err != nil {
			t.Errorf("%s: %v", tt.pattern, err)
			continue
		}
		if got := re.MatchString(tt.text); got != tt.match {
			t.Errorf("%s matches %q: %t, want %t", tt.pattern, tt.text, got, tt.match)
		}
	}
	if _, err := Compile(`^(?!\s*$).+`); err == nil {
		t.Error("a look-ahead compiled")
	}
}
