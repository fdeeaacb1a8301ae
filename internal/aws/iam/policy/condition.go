package policy

import (
	"encoding/base64"
	"math/big"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Keys finds the values of condition keys. Names are compared without regard to case.
type Keys interface {
	// Lookup returns the values of a key; ok is false when the request does not have it.
	Lookup(key string) (values []string, ok bool)
}

// Context is a plain set of condition keys.
type Context map[string][]string

// Lookup finds a key however it is spelled. Of several spellings that none of is the asked one, as tags may have, it is
// always the same.
func (c Context) Lookup(key string) ([]string, bool) {
	if values, ok := c[key]; ok {
		return values, true
	}
	var found string
	var values []string
	ok := false
	for name, v := range c {
		if SameKey(name, key) && (!ok || name < found) {
			found, values, ok = name, v, true
		}
	}
	return values, ok
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

// setOperator is the treatment of a key with several values.
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

	// match reports whether a value of the request fits one of the policy's values.
	match    func(c *condition, value string, e *evaluation) bool
	patterns []pattern
	arns     []arnPattern
	numbers  []*big.Rat
	prefixes []netip.Prefix
	texts    []string
}

// operators are the condition operators without their prefixes and suffixes.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_condition_operators.html
var operators = map[string]struct {
	negated bool
	// false for a value that is not of the operator's type
	compile func(c *condition, values []string, variables bool) bool
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
		return c,
			malformed(
				"Actions/Conditions must be prefaced by a vendor, e.g., iam, sdb, ec2, etc. Got the condition key %q.",
				key)
	}
	c.negated = op.negated
	if !op.compile(&c, values, variables) {
		return c, malformed("The value %q of the condition key %s is not valid for the operator %s.",
			strings.Join(values, `", "`), key, operator)
	}
	return c, nil
}

// isSatisfied decides the condition for a request.
func (c *condition) isSatisfied(e *evaluation) bool {
	values, present := e.lookupKey(c.key)
	if c.null {
		return (!present || len(values) == 0) == c.want
	}
	if c.set != singleValue && !slices.ContainsFunc(values, func(v string) bool { return v != "" }) {
		// A key of empty strings is a null data set to the set operators.
		// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_condition-single-vs-multi-valued-context-keys.html
		values = nil
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
	for _, v := range values {
		if !e.canCompare(c.key, v) {
			return false
		}
	}
	matches := func(v string) bool { return c.match(c, v, e) }
	switch c.set {
	case forAllValues:
		return !anyFits(e, values, valueSteps, func(v string) bool { return matches(v) == c.negated })
	case forAnyValue:
		return anyFits(e, values, valueSteps, func(v string) bool { return matches(v) != c.negated })
	}
	return anyFits(e, values, valueSteps, matches) != c.negated
}

// anyFits reports whether one of the values of a request, or of a condition, fits. Looking at one takes steps; every
// operator compares by it, so that none works without a budget.
func anyFits[T any](e *evaluation, values []T, steps int, fits func(T) bool) bool {
	return slices.ContainsFunc(values, func(v T) bool { return e.tryConsume(steps) && fits(v) })
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

func matchPatterns(c *condition, value string, e *evaluation) bool {
	return anyFits(e, c.patterns, 1, func(p pattern) bool { return p.matchFilled(value, e) })
}

func compileFolded(c *condition, values []string, variables bool) bool {
	compileStrings(false)(c, values, variables)
	c.match = func(c *condition, value string, e *evaluation) bool {
		return anyFits(e, c.patterns, valueSteps, func(p pattern) bool {
			filled := p.substitute(e)
			return filled.isKnown(e) && e.tryConsume(len(filled.literal)) && filled.matchable && equalFold(filled.literal, value)
		})
	}
	return true
}

// SameKey reports whether two tag keys, or condition keys, are the same to policies. Whoever keeps tags by keys without
// regard to case has to go by this: what a policy takes for another tag must not be changed with it.
func SameKey(a, b string) bool { return len(a) == len(b) && equalFold(a, b) }

// equalFold compares without regard to case. An ASCII letter equals nothing but itself in the other case: to Unicode,
// the Kelvin sign is a K and the long s an S.
func equalFold(a, b string) bool {
	if !strings.EqualFold(a, b) {
		return false
	}
	others := []rune(b)
	for i, r := range []rune(a) {
		if (r < utf8.RuneSelf) != (others[i] < utf8.RuneSelf) {
			return false
		}
	}
	return true
}

func compileNumbers(compare func(int) bool) func(*condition, []string, bool) bool {
	return func(c *condition, values []string, _ bool) bool { return c.setNumbers(values, compare, parseNumber) }
}

func compileDates(compare func(int) bool) func(*condition, []string, bool) bool {
	return func(c *condition, values []string, _ bool) bool { return c.setNumbers(values, compare, parseDate) }
}

// setNumbers compiles an ordered operator. A value of the request that is not of the operator's type matches no value
// of the policy.
func (c *condition) setNumbers(values []string, compare func(int) bool, parse func(string) (*big.Rat, bool)) bool {
	for _, v := range values {
		number, ok := parse(v)
		if !ok {
			return false
		}
		c.numbers = append(c.numbers, number)
	}
	c.match = func(c *condition, value string, e *evaluation) bool {
		if !e.tryConsume(parseSteps) {
			return false
		}
		got, ok := parse(value)
		return ok && anyFits(e, c.numbers, numberSteps, func(want *big.Rat) bool { return compare(got.Cmp(want)) })
	}
	return true
}

// decimal matches a number in IAM's sense: an integer or a decimal value. It has no exponent, no base, no infinity and
// no NaN.
var decimal = regexp.MustCompile(`^-?[0-9]{1,40}(\.[0-9]{1,40})?$`)

// parseNumber reads a number without rounding it.
func parseNumber(s string) (*big.Rat, bool) {
	if !decimal.MatchString(s) {
		return nil, false
	}
	return new(big.Rat).SetString(s)
}

// dates are the W3C profile of ISO 8601, and the form without separators of signatures. time.Parse alone takes more:
// hours of one digit, commas and fractions where the format has none.
// https://www.w3.org/TR/NOTE-datetime
var dates = []struct {
	form   *regexp.Regexp
	format string
}{
	{regexp.MustCompile(`^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{1,9})?(Z|[+-]\d{2}:\d{2})$`), time.RFC3339},
	{regexp.MustCompile(`^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(Z|[+-]\d{2}:\d{2})$`), "2006-01-02T15:04Z07:00"},
	{regexp.MustCompile(`^\d{4}-\d{2}-\d{2}$`), "2006-01-02"},
	{regexp.MustCompile(`^\d{4}-\d{2}$`), "2006-01"},
	{regexp.MustCompile(`^\d{4}$`), "2006"},
	{regexp.MustCompile(`^\d{8}T\d{6}Z$`), "20060102T150405Z"},
}

// latest is the end of the year 9999, in seconds since 1970. No later date can be written with a year of four digits.
var latest = big.NewRat(253402300799, 1)

// parseDate reads a date, or seconds since 1970, as seconds.
func parseDate(s string) (*big.Rat, bool) {
	for _, d := range dates {
		if !d.form.MatchString(s) {
			continue
		}
		t, err := time.Parse(d.format, s)
		if err != nil {
			return nil, false
		}
		return new(big.Rat).Add(big.NewRat(t.Unix(), 1), big.NewRat(int64(t.Nanosecond()), 1e9)), true
	}
	seconds, ok := parseNumber(s)
	return seconds, ok && seconds.Sign() >= 0 && seconds.Cmp(latest) <= 0
}

// compileBools compiles Bool. Its values are compared as the words that they are: no other letter folds to one of
// theirs.
func compileBools(c *condition, values []string, variables bool) bool {
	for _, v := range values {
		if _, ok := parseBool(v); !ok && !strings.Contains(v, "${") {
			return false
		}
	}
	compileStrings(false)(c, values, variables)
	c.match = func(c *condition, value string, e *evaluation) bool {
		got, ok := parseBool(value)
		return ok && anyFits(e, c.patterns, valueSteps, func(p pattern) bool {
			filled := p.substitute(e)
			want, ok := parseBool(filled.literal)
			return filled.isKnown(e) && ok && filled.matchable && got == want
		})
	}
	return true
}

// parseBool reads true or false, in any case of their ASCII letters.
func parseBool(s string) (value, ok bool) {
	if len(s) > len("false") {
		return false, false
	}
	switch strings.ToLower(s) {
	case "true":
		return true, true
	case "false":
		return false, true
	}
	return false, false
}

func compileBinary(c *condition, values []string, _ bool) bool {
	for _, v := range values {
		raw, ok := parseBinary(v)
		if !ok {
			return false
		}
		c.texts = append(c.texts, raw)
	}
	c.match = func(c *condition, value string, e *evaluation) bool {
		raw, ok := parseBinary(value)
		return ok && anyFits(e, c.texts, valueSteps, func(text string) bool {
			return e.tryConsume(len(text)) && text == raw
		})
	}
	return true
}

// parseBinary decodes base64 in its one canonical spelling.
func parseBinary(s string) (string, bool) {
	raw, err := base64.StdEncoding.Strict().DecodeString(s)
	return string(raw), err == nil && !strings.ContainsAny(s, "\r\n")
}

// compileAddresses compiles IpAddress. The bits of a block behind its prefix do not count.
func compileAddresses(c *condition, values []string, _ bool) bool {
	for _, v := range values {
		prefix, ok := parsePrefix(v)
		if !ok {
			return false
		}
		c.prefixes = append(c.prefixes, prefix)
	}
	c.match = func(c *condition, value string, e *evaluation) bool {
		address, err := netip.ParseAddr(value)
		if err != nil {
			return false
		}
		address = address.WithZone("").Unmap()
		return anyFits(e, c.prefixes, valueSteps, func(p netip.Prefix) bool { return p.Contains(address) })
	}
	return true
}

// parsePrefix reads an address or a CIDR block, without a zone. A block of IPv4 addresses as IPv6 has them is one of
// IPv4.
func parsePrefix(s string) (netip.Prefix, bool) {
	prefix, err := netip.ParsePrefix(s)
	if err != nil {
		address, err := netip.ParseAddr(s)
		if err != nil || address.Zone() != "" {
			return prefix, false
		}
		prefix = netip.PrefixFrom(address, address.BitLen())
	}
	if mapped := prefix.Addr(); mapped.Is4In6() && prefix.Bits() >= 96 {
		prefix = netip.PrefixFrom(mapped.Unmap(), prefix.Bits()-96)
	}
	return prefix.Masked(), true
}

func compileARNs(c *condition, values []string, variables bool) bool {
	for _, v := range values {
		c.arns = append(c.arns, compileARN(v, syntax{wildcards: true, variables: variables}))
	}
	c.match = func(c *condition, value string, e *evaluation) bool {
		return anyFits(e, c.arns, valueSteps, func(a arnPattern) bool { return a.matches(value, e) })
	}
	return true
}

func compileNull(c *condition, values []string, _ bool) bool {
	c.null = true
	if len(values) != 1 {
		return false
	}
	var ok bool
	c.want, ok = parseBool(values[0])
	return ok
}
