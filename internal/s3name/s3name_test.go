package s3name_test

import (
	"testing"

	"github.com/coracle-eks/coracle/internal/s3name"
)

func TestParseHost(t *testing.T) {
	t.Parallel()
	const none = "none"
	for host, want := range map[string]string{
		"s3.amazonaws.com":                             "",
		"s3.eu-west-1.amazonaws.com":                   "",
		"s3.cn-north-1.amazonaws.com.cn":               "",
		"s3.dualstack.eu-west-1.amazonaws.com":         "",
		"s3-fips.us-east-1.amazonaws.com":              "",
		"s3-us-west-2.amazonaws.com":                   "",
		"b.s3.amazonaws.com":                           "b",
		"b.s3.eu-west-1.amazonaws.com":                 "b",
		"a.b.s3.eu-west-1.amazonaws.com":               "a.b",
		"b.s3.dualstack.eu-west-1.amazonaws.com":       "b",
		"b.s3-us-west-2.amazonaws.com":                 "b",
		"s3.s3.eu-west-1.amazonaws.com":                "s3",
		"s3-control.eu-west-1.amazonaws.com":           none,
		"1.s3-control.eu-west-1.amazonaws.com":         none,
		"b.s3-website.eu-west-1.amazonaws.com":         none,
		"b.s3-website-us-west-2.amazonaws.com":         none,
		"p-1.s3-accesspoint.eu-west-1.amazonaws.com":   none,
		"s3.eu-west-1.amazonaws.com.evil.example":      none,
		"eu-west-1.amazonaws.com":                      none,
		"dualstack.eu-west-1.amazonaws.com":            none,
		"sts.eu-west-1.amazonaws.com":                  none,
		"amazonaws.com":                                none,
		"s3":                                           none,
		"":                                             none,
		"s3.dualstack.amazonaws.com":                   none,
		"b.s3express-use1-az4.us-east-1.amazonaws.com": none,
	} {
		got, ok := s3name.ParseHost(host)
		if !ok {
			got = none
		}
		if got != want {
			t.Errorf("%s: %q, want %q", host, got, want)
		}
	}
}

func TestIsBucket(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"logs": true, "a.b-c": true, "111": true, "ab": false, "Logs": false, "a..b": false, ".abc": false, "abc-": false,
		"a_b_c": false, "": false, "a/b": false, "..": false, "%2e%2e": false,
	} {
		if got := s3name.IsBucket(name); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
}
