package application

import (
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// condition reports whether a request meets a Condition.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/application/rule-condition-types.html
type condition func(e *exchange) bool

func compileCondition(c Condition) (condition, error) {
	switch c.Field {
	case FieldHost:
		match, err := texts(c, "(?i)", true)
		if err != nil {
			return nil, err
		}
		return func(e *exchange) bool { return match(strings.TrimSuffix(hostOf(e.r.Host), ".")) }, nil
	case FieldPath:
		match, err := texts(c, "", false)
		if err != nil {
			return nil, err
		}
		return func(e *exchange) bool { return match(e.path) }, nil
	case FieldHeader:
		match, err := texts(c, "(?i)", true)
		if err != nil {
			return nil, err
		}
		return func(e *exchange) bool { return slices.ContainsFunc(e.r.Header.Values(c.Header), match) }, nil
	case FieldMethod:
		return func(e *exchange) bool { return slices.Contains(c.Values, e.r.Method) }, nil
	case FieldQuery:
		return func(e *exchange) bool { return queryMatches(c.Query, e.r.URL.RawQuery) }, nil
	case FieldSource:
		var blocks []netip.Prefix
		for _, text := range c.Values {
			block, err := netip.ParsePrefix(text)
			if err != nil {
				return nil, err
			}
			blocks = append(blocks, block.Masked())
		}
		return func(e *exchange) bool {
			return slices.ContainsFunc(blocks, func(b netip.Prefix) bool { return b.Contains(e.client.address.Addr()) })
		}, nil
	}
	return nil, fmt.Errorf("the field %q of a condition is unknown", c.Field)
}

// texts returns what matches a text with the values and expressions of a condition.
func texts(c Condition, flags string, fold bool) (func(string) bool, error) {
	patterns := slices.Clone(c.Values)
	if fold {
		for i, p := range patterns {
			patterns[i] = strings.ToLower(p)
		}
	}
	var expressions []*regexp.Regexp
	for _, text := range c.Regex {
		re, _, err := expression(text, flags)
		if err != nil {
			return nil, err
		}
		expressions = append(expressions, re)
	}
	return func(text string) bool {
		if slices.ContainsFunc(expressions, func(re *regexp.Regexp) bool { return re.MatchString(text) }) {
			return true
		}
		if fold {
			text = strings.ToLower(text)
		}
		return slices.ContainsFunc(patterns, func(p string) bool { return glob(p, text, false) })
	}, nil
}

// queryMatches reports whether a query string has one of the values, as it is or decoded.
func queryMatches(wanted []QueryValue, query string) bool {
	for query != "" {
		var pair string
		pair, query, _ = strings.Cut(query, "&")
		key, value, _ := strings.Cut(pair, "=")
		for _, w := range wanted {
			if (w.Key == nil || queryText(*w.Key, key)) && queryText(w.Value, value) {
				return true
			}
		}
	}
	return false
}

func queryText(pattern, text string) bool {
	pattern = strings.ToLower(pattern)
	if glob(pattern, strings.ToLower(text), true) {
		return true
	}
	decoded, err := url.QueryUnescape(text)
	return err == nil && decoded != text && glob(pattern, strings.ToLower(decoded), true)
}

// glob reports whether a text matches a pattern, in which * stands for any characters and ? for one. With escapes a
// backslash before one of them takes its meaning.
func glob(pattern, text string, escapes bool) bool {
	p, t := 0, 0
	star, from := -1, 0 // after the last *, and where in the text it ends
	for t < len(text) {
		if p < len(pattern) {
			switch c := pattern[p]; {
			case c == '*':
				star, from = p+1, t
				p++
				continue
			case escapes && c == '\\' && p+1 < len(pattern) && (pattern[p+1] == '*' || pattern[p+1] == '?'):
				if pattern[p+1] == text[t] {
					p, t = p+2, t+1
					continue
				}
			case c == '?' || c == text[t]:
				p, t = p+1, t+1
				continue
			}
		}
		if star < 0 {
			return false
		}
		from++
		p, t = star, from
	}
	return strings.Trim(pattern[p:], "*") == ""
}
