package document

import (
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
)

func TestCheckQuantities(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		text    string
		refused bool
	}{
		"nothing":                          {``, false},
		"what Kubernetes has":              {`{"limits":{"cpu":"1500m","memory":"8Ei"},"requests":{"cpu":2,"memory":"1e3"}}`, false},
		"smaller than anything":            {`{"requests":{"cpu":"1e-1000000000"}}`, true},
		"larger than anything":             {`{"requests":{"cpu":"1e1000000000"}}`, true},
		"in capital letters":               {`{"REQUESTS":{"cpu":"1E-1000000000"}}`, true},
		"without quotes":                   {`{"requests":{"cpu":1e-1000000000}}`, true},
		"without quotes, more":             {`{"capacity":{"cpu": -1E+1000000000 , "memory":1}}`, true},
		"a field, not a map":               {`{"emptyDir":{"sizeLimit":"1e-1000000000"}}`, true},
		"deep below":                       {`{"capacity":{"disk":{"value":"1e-1000000000"}}}`, true},
		"in a list":                        {`{"capacity":[{"a":[["1e-1000000000"]]}]}`, true},
		"after a list":                     {`{"requests":{"a":[1,{"b":2}],"cpu":"1e-1000000000"}}`, true},
		"in the second text":               {`{"kind":"Pod"} {"requests":{"cpu":"1e-1000000000"}}`, true},
		"with spaces":                      {`{ "requests" : { "cpu" : " \t 1e-1000000000 \u2003" } }`, true},
		"with escapes":                     {`{"requests":{"cpu":"\u0031\u0065-1000000000"}}`, true},
		"an escaped name":                  {`{"requ\u0065sts":{"cpu":"1e-1000000000"}}`, true},
		"a folded name":                    {`{"requeſts":{"cpu":"1e-1000000000"}}`, true},
		"an exponent that is 0 in 32 bits": {`{"requests":{"cpu":"1e4294967296"}}`, true},
		"many digits":                      {`{"requests":{"cpu":"` + strings.Repeat("7", 100) + `"}}`, true},
		"many places":                      {`{"requests":{"cpu":"0.` + strings.Repeat("0", 100) + `1Ki"}}`, true},
		"as many as may be":                {`{"limits":{"a":"` + strings.Repeat("7", 99) + `","b":"1e-99"}}`, false},

		"a resource that is called labels":   {`{"requests":{"labels":"1e-1000000000"}}`, true},
		"a resource that is called metadata": {`{"capacity":{"metadata":{"a":"1e-1000000000"}}}`, true},
		"after labels":                       {`{"labels":{"a":["b"]},"requests":{"cpu":"1e-1000000000"}}`, true},
		"after a text in place of labels":    {`{"labels":"a","requests":{"cpu":"1e-1000000000"}}`, true},
		"after a list in place of labels":    {`{"labels":[],"requests":{"cpu":"1e-1000000000"}}`, true},
		"in the object after its metadata": {`{"items":[{"metadata":{"labels":{}}},` +
			`{"metadata":{},"spec":{"requests":{"cpu":"1e-1000000000"}}}]}`, true},
		"labels as a value": {`{"a":"labels","requests":{"cpu":"1e-1000000000"}}`, true},
		"an escaped label":  {`{"l\u0061bels":{"requests":"1e-1000000000"}}`, true},

		"a label that is called like a quantity": {`{"metadata":{"labels":{"target":"1e100","limits":"1e1000"}}}`, false},
		"the same in an annotation":              {`{"annotations":{"requests":"1e1000"}}`, false},
		"the same in a selector":                 {`{"spec":{"nodeSelector":{"max":"1e1000"},"limits":{"cpu":"1"}}}`, false},
		"the same in the data":                   {`{"data":{"used":"1e1000"},"stringData":{"capacity":"1e1000"}}`, false},
		"the same in attributes of a volume":     {`{"csi":{"volumeAttributes":{"capacity":"1e1000"}}}`, false},
		"the same, deep below":                   {`{"metadata":{"x":[{"requests":{"cpu":"1e1000"}}]}}`, false},

		"a commit in a label": {`{"requests":{"cpu":"1"},"labels":{"commit":"12e34567","requests":"1","x":"1e-1000000000"}}`,
			false},
		"a commit in a variable": {`{"env":[{"name":"COMMIT","value":"12e34567"}]}`, false},
		"long texts":             {`{"data":{"a":"` + strings.Repeat("7", 1000) + `"},"b":[1e999]}`, false},
		"no number":              {`{"default":"` + strings.Repeat("7", 1000) + ` is long","max":"0x1e1000000000"}`, false},
		"a name as a value":      {`{"a":"requests","b":["requests","1e1000000000"]}`, false},
		"a quote in a text":      {`{"requests":{"cpu":"\"1e1000000000"}}`, false},
		"a name that goes on":    {`{"` + strings.Repeat("requests", 4) + `":"1e1000000000"}`, false},
		"closed too often":       {`]]}}{"a":1}`, false},
		"nested too deeply":      {strings.Repeat(`[`, 10_001), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			whole := CheckQuantities([]byte(test.text))
			if (whole != nil) != test.refused {
				t.Errorf("in one piece: %v", whole)
			}
			var q Quantities
			var err error
			for i := 0; i < len(test.text) && err == nil; i++ {
				err = q.Add([]byte{test.text[i]})
			}
			if (err != nil) != test.refused {
				t.Errorf("byte by byte: %v", err)
			}
		})
	}
}

// FuzzQuantities shows that what passes as a quantity is soon decoded, added and compared.
func FuzzQuantities(f *testing.F) {
	for _, text := range []string{"1", "1.5Gi", "1e99", "-1e-99", "0.00001u", "1Ei", "1E", "1e+5", "1ei5", "  5M "} {
		f.Add(text)
	}
	one := resource.MustParse("1")
	f.Fuzz(func(t *testing.T, text string) {
		if CheckQuantities([]byte(`{"requests":{"cpu":`+strconv.Quote(text)+`}}`)) != nil {
			return
		}
		q, err := resource.ParseQuantity(strings.TrimSpace(text))
		if err != nil {
			return
		}
		q.Add(one)
		if n := len(q.String()); q.Cmp(one) == 0 || n > 2*(maxDigits+maxExponent) {
			t.Logf("%q is %d characters", text, n)
		}
	})
}
