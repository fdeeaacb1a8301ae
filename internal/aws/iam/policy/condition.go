package policy

import (
	"encoding/base64"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Keys finds the values of condition keys. Names are compared without regard to case.
type Keys interface {
	// Lookup returns the values of a key; ok is false when the request does not have it.
	Lookup(key string) (values []string, ok bool)
}

// Context is a plain set of condition keys.
type Context map[string][]string

// Lookup finds a key however it is spelled.
func (c Context) Lookup(key string) ([]string, bool) {
	if values, ok := c[key]; ok {
		return values, true
	}
	for name, values := range c {
		if len(name) == len(key) && strings.EqualFold(name, key) {
			return values, true
		}
	}
	return nil, false
}

// Layers is several sets of keys as one; an earlier set hides a later one.
type Layers []Keys

// Lookup finds a key in the first layer that has it.
func (l Layers) Lookup(key string) ([]string, bool) {
	for _, layer := range l {
		if layer == nil {
			continue
		}
		if values, ok := layer.Lookup(key); ok {
			return values, true
		}
	}
	return nil, false
}

func lookUp(keys Keys, key string) ([]string, bool) {
	if keys == nil {
		return nil, false
	}
	return keys.Lookup(key)
}

// setOperator says how a condition treats a key with several values.
type setOperator int

const (
	singleValue setOperator = iota
	forAllValues
	forAnyValue
)

// condition is one key of one operator: {"StringLike": {"aws:username": ["a*", "b"]}}.
type condition struct {
	set      setOperator
	ifExists bool
	null     bool // the Null operator; want is whether the key must be absent
	want     bool
	negated  bool
	key      string

	// match says whether a value of the request fits one of the policy's values.
	match    func(c *condition, value string, keys Keys) bool
	patterns []pattern
	arns     []arnPattern
	numbers  []float64
	prefixes []netip.Prefix
	texts    []string
}

// operators are the condition operators without their prefixes and suffixes.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_condition_operators.html
var operators = map[string]struct {
	negated bool
	compile func(c *condition, values []string, variables bool) bool // false for a value that is not of the operator's type
}{
	"StringEquals":              {false, compileStrings(false)},
	"StringNotEquals":           {true, compileStrings(false)},
	"StringEqualsIgnoreCase":    {false, compileFolded},
	"StringNotEqualsIgnoreCase": {true, compileFolded},
	"StringLike":                {false, compileStrings(true)},
	"StringNotLike":             {true, compileStrings(true)},
	"NumericEquals":             {false, compileNumbers(func(o int) bool { return o == 0 })},
	"NumericNotEquals":          {true, compileNumbers(func(o int) bool { return o == 0 })},
	"NumericLessThan":           {false, compileNumbers(func(o int) bool { return o < 0 })},
	"NumericLessThanEquals":     {false, compileNumbers(func(o int) bool { return o <= 0 })},
	"NumericGreaterThan":        {false, compileNumbers(func(o int) bool { return o > 0 })},
	"NumericGreaterThanEquals":  {false, compileNumbers(func(o int) bool { return o >= 0 })},
	"DateEquals":                {false, compileDates(func(o int) bool { return o == 0 })},
	"DateNotEquals":             {true, compileDates(func(o int) bool { return o == 0 })},
	"DateLessThan":              {false, compileDates(func(o int) bool { return o < 0 })},
	"DateLessThanEquals":        {false, compileDates(func(o int) bool { return o <= 0 })},
	"DateGreaterThan":           {false, compileDates(func(o int) bool { return o > 0 })},
	"DateGreaterThanEquals":     {false, compileDates(func(o int) bool { return o >= 0 })},
	"Bool":                      {false, compileBools},
	"BinaryEquals":              {false, compileBinary},
	"IpAddress":                 {false, compileAddresses},
	"NotIpAddress":              {true, compileAddresses},
	"ArnEquals":                 {false, compileARNs},
	"ArnLike":                   {false, compileARNs},
	"ArnNotEquals":              {true, compileARNs},
	"ArnNotLike":                {true, compileARNs},
	"Null":                      {false, compileNull},
}

func compileCondition(operator, key string, values []string, variables bool) (condition, error) {
	c := condition{key: key}
	name := operator
	switch {
	case strings.HasPrefix(name, "ForAllValues:"):
		c.set, name = forAllValues, strings.TrimPrefix(name, "ForAllValues:")
	case strings.HasPrefix(name, "ForAnyValue:"):
		c.set, name = forAnyValue, strings.TrimPrefix(name, "ForAnyValue:")
	}
	if base := strings.TrimSuffix(name, "IfExists"); base != name && base != "Null" {
		c.ifExists, name = true, base
	}
	op, ok := operators[name]
	if !ok {
		return c, malformed("Invalid Condition type : %s.", operator)
	}
	if prefix, _, ok := strings.Cut(key, ":"); !ok || prefix == "" {
		return c, malformed("Actions/Conditions must be prefaced by a vendor, e.g., iam, sdb, ec2, etc. Got the condition key %q.", key)
	}
	c.negated = op.negated
	if !op.compile(&c, values, variables) {
		return c, malformed("The value %q of the condition key %s is not valid for the operator %s.", strings.Join(values, `", "`), key, operator)
	}
	return c, nil
}

// holds decides the condition for a request.
func (c *condition) holds(keys Keys) bool {
	values, present := lookUp(keys, c.key)
	if c.null {
		return (!present || len(values) == 0) == c.want
	}
	if !present || len(values) == 0 {
		switch {
		case c.ifExists, c.set == forAllValues:
			return true
		case c.set == forAnyValue:
			return false
		}
		return c.negated
	}
	switch c.set {
	case forAllValues:
		for _, v := range values {
			if c.match(c, v, keys) == c.negated {
				return false
			}
		}
		return true
	case forAnyValue:
		for _, v := range values {
			if c.match(c, v, keys) != c.negated {
				return true
			}
		}
		return false
	}
	for _, v := range values {
		if c.match(c, v, keys) {
			return !c.negated
		}
	}
	return c.negated
}

func compileStrings(wildcards bool) func(*condition, []string, bool) bool {
	return func(c *condition, values []string, variables bool) bool {
		for _, v := range values {
			c.patterns = append(c.patterns, compilePattern(v, syntax{wildcards: wildcards, variables: variables}))
		}
		c.match = matchPatterns
		return true
	}
}

func matchPatterns(c *condition, value string, keys Keys) bool {
	for i := range c.patterns {
		if c.patterns[i].matchFilled(value, keys) {
			return true
		}
	}
	return false
}

func compileFolded(c *condition, values []string, variables bool) bool {
	compileStrings(false)(c, values, variables)
	c.match = func(c *condition, value string, keys Keys) bool {
		for i := range c.patterns {
			if p := c.patterns[i].fill(keys); p.matchable && strings.EqualFold(p.literal, value) {
				return true
			}
		}
		return false
	}
	return true
}

func compileNumbers(compare func(int) bool) func(*condition, []string, bool) bool {
	return func(c *condition, values []string, _ bool) bool {
		return c.setNumbers(values, compare, func(s string) (float64, bool) {
			f, err := strconv.ParseFloat(s, 64)
			return f, err == nil
		})
	}
}

func compileDates(compare func(int) bool) func(*condition, []string, bool) bool {
	return func(c *condition, values []string, _ bool) bool {
		return c.setNumbers(values, compare, parseDate)
	}
}

func (c *condition) setNumbers(values []string, compare func(int) bool, parse func(string) (float64, bool)) bool {
	for _, v := range values {
		f, ok := parse(v)
		if !ok {
			return false
		}
		c.numbers = append(c.numbers, f)
	}
	c.match = func(c *condition, value string, _ Keys) bool {
		got, ok := parse(value)
		if !ok {
			return false
		}
		return slices.ContainsFunc(c.numbers, func(want float64) bool {
			switch {
			case got < want:
				return compare(-1)
			case got > want:
				return compare(1)
			}
			return compare(0)
		})
	}
	return true
}

// dateFormats are the W3C forms of ISO 8601.
var dateFormats = []string{time.RFC3339, "2006-01-02T15:04Z07:00", "2006-01-02", "2006-01", "2006", "20060102T150405Z"}

// parseDate reads a date, or seconds since 1970.
func parseDate(s string) (float64, bool) {
	if f, err := strconv.ParseFloat(s, 64); err == nil && len(s) != len("2006") {
		return f, true
	}
	for _, format := range dateFormats {
		if t, err := time.Parse(format, s); err == nil {
			return float64(t.UnixMilli()) / 1000, true
		}
	}
	return 0, false
}

func compileBools(c *condition, values []string, variables bool) bool {
	for _, v := range values {
		if !strings.EqualFold(v, "true") && !strings.EqualFold(v, "false") && !strings.Contains(v, "${") {
			return false
		}
	}
	return compileFolded(c, values, variables)
}

func compileBinary(c *condition, values []string, _ bool) bool {
	for _, v := range values {
		raw, err := base64.StdEncoding.DecodeString(v)
		if err != nil {
			return false
		}
		c.texts = append(c.texts, string(raw))
	}
	c.match = func(c *condition, value string, _ Keys) bool {
		raw, err := base64.StdEncoding.DecodeString(value)
		return err == nil && slices.Contains(c.texts, string(raw))
	}
	return true
}

func compileAddresses(c *condition, values []string, _ bool) bool {
	for _, v := range values {
		prefix, err := netip.ParsePrefix(v)
		if err != nil {
			address, err := netip.ParseAddr(v)
			if err != nil {
				return false
			}
			prefix = netip.PrefixFrom(address, address.BitLen())
		}
		c.prefixes = append(c.prefixes, prefix.Masked())
	}
	c.match = func(c *condition, value string, _ Keys) bool {
		address, err := netip.ParseAddr(value)
		if err != nil {
			return false
		}
		address = address.Unmap()
		return slices.ContainsFunc(c.prefixes, func(p netip.Prefix) bool { return p.Contains(address) })
	}
	return true
}

func compileARNs(c *condition, values []string, variables bool) bool {
	for _, v := range values {
		c.arns = append(c.arns, compileARN(v, syntax{wildcards: true, variables: variables}))
	}
	c.match = func(c *condition, value string, keys Keys) bool {
		return slices.ContainsFunc(c.arns, func(a arnPattern) bool { return a.match(value, keys) })
	}
	return true
}

func compileNull(c *condition, values []string, _ bool) bool {
	c.null = true
	if len(values) != 1 {
		return false
	}
	c.want = strings.EqualFold(values[0], "true")
	return c.want || strings.EqualFold(values[0], "false")
}
