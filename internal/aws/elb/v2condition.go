package elb

import (
	"net/netip"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/regexsize"
)

// Fields of conditions.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_RuleCondition.html
const (
	hostHeader    = "host-header"
	pathPattern   = "path-pattern"
	httpHeader    = "http-header"
	requestMethod = "http-request-method"
	queryString   = "query-string"
	sourceIP      = "source-ip"
)

var (
	hostValue   = regexp.MustCompile(`^[A-Za-z0-9.*?-]+$`)
	pathValue   = regexp.MustCompile(`^[A-Za-z0-9_.$/~"'@:+&;,=!()%*?-]+$`)
	headerName  = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,40}$")
	methodValue = regexp.MustCompile(`^[A-Z_-]{1,40}$`)
)

// parseConditions returns the conditions of a rule that a request describes.
func parseConditions(list []types.RuleCondition) (all []record.RuleCondition, err error) {
	if len(list) == 0 {
		return nil, invalid("At least one condition must be specified")
	}
	seen, values, wildcards := map[string]bool{}, 0, 0
	for _, in := range list {
		r, err := parseCondition(in)
		if err != nil {
			return nil, err
		}
		if seen[r.Field] && r.Field != httpHeader && r.Field != queryString {
			return nil, invalid("A rule can have one condition with the field '%s'", r.Field)
		}
		seen[r.Field] = true
		values += len(r.Values) + len(r.Regex) + len(r.Query)
		for _, v := range r.Values {
			if r.Field != requestMethod {
				wildcards += strings.Count(v, "*") + strings.Count(v, "?")
			}
		}
		for _, q := range r.Query {
			text := strings.NewReplacer(`\*`, "", `\?`, "").Replace(q.Key + q.Value)
			wildcards += strings.Count(text, "*") + strings.Count(text, "?")
		}
		all = append(all, r)
		if values > maxConditionValues {
			return nil, tooManyValues()
		}
	}
	if wildcards > maxWildcards {
		return nil, invalid("A rule can only have '%d' condition wildcards", maxWildcards)
	}
	return all, nil
}

func tooManyValues() error {
	return invalid("A rule can only have '%d' condition values", maxConditionValues)
}

func parseCondition(in types.RuleCondition) (r record.RuleCondition, err error) {
	r.Field = aws.ToString(in.Field)
	var configured bool
	switch r.Field {
	case hostHeader:
		if configured = in.HostHeaderConfig != nil; configured {
			r.Values, r.Regex = in.HostHeaderConfig.Values, in.HostHeaderConfig.RegexValues
		}
	case pathPattern:
		if configured = in.PathPatternConfig != nil; configured {
			r.Values, r.Regex = in.PathPatternConfig.Values, in.PathPatternConfig.RegexValues
		}
	case httpHeader:
		if configured = in.HttpHeaderConfig != nil; configured {
			r.Header = aws.ToString(in.HttpHeaderConfig.HttpHeaderName)
			r.Values, r.Regex = in.HttpHeaderConfig.Values, in.HttpHeaderConfig.RegexValues
		}
	case requestMethod:
		if configured = in.HttpRequestMethodConfig != nil; configured {
			r.Values = in.HttpRequestMethodConfig.Values
		}
	case queryString:
		if configured = in.QueryStringConfig != nil; configured {
			for _, q := range in.QueryStringConfig.Values {
				r.Query = append(r.Query, record.QueryValue{Key: aws.ToString(q.Key), Value: aws.ToString(q.Value)})
			}
		}
	case sourceIP:
		if configured = in.SourceIpConfig != nil; configured {
			r.Values = in.SourceIpConfig.Values
		}
	default:
		return r, invalid("Condition field '%s' must be one of: http-request-method, host-header, path-pattern, "+
			"http-header, query-string, source-ip", r.Field)
	}
	given := 0
	for _, there := range []bool{in.HostHeaderConfig != nil, in.PathPatternConfig != nil, in.HttpHeaderConfig != nil,
		in.HttpRequestMethodConfig != nil, in.QueryStringConfig != nil, in.SourceIpConfig != nil} {
		if there {
			given++
		}
	}
	simple := append(slices.Clone(in.Values), in.RegexValues...)
	switch {
	case given > 1 || given == 1 && !configured:
		return r, invalid("A condition with the field '%s' must have the configuration of this field, and no other", r.Field)
	case len(simple) > 0 && r.Field != hostHeader && r.Field != pathPattern:
		return r, invalid("The values of a condition with the field '%s' must be in its configuration", r.Field)
	case len(simple) > 0 && !configured:
		r.Values, r.Regex = in.Values, in.RegexValues
	// Those who read a rule and write it back have them twice.
	case len(in.Values) > 0 && !slices.Equal(in.Values, r.Values), len(in.RegexValues) > 0 &&
		!slices.Equal(in.RegexValues, r.Regex):
		return r, invalid("A condition cannot have values of its own beside those of its configuration")
	}
	switch n := len(r.Values) + len(r.Regex) + len(r.Query); {
	case n == 0:
		return r, invalid("A condition value must be specified")
	case n > maxConditionValues: // they are not read first
		return r, tooManyValues()
	case len(r.Values) > 0 && len(r.Regex) > 0:
		return r, invalid("A condition cannot have values and regular expressions")
	case r.Field == httpHeader && !headerName.MatchString(r.Header):
		return r, invalid("HTTP header name '%s' is not valid", r.Header)
	case r.Field == httpHeader && strings.EqualFold(r.Header, "Host"):
		return r, invalid("An HTTP header condition cannot specify the host header: use a condition 'host-header'")
	}
	for _, v := range r.Values {
		if err := checkConditionValue(r.Field, v); err != nil {
			return r, err
		}
	}
	for _, v := range r.Regex {
		if len(v) > 128 || !isExpression(v) {
			return r, invalid("Condition value '%s' is not a valid regular expression of at most 128 characters", v)
		}
	}
	for _, q := range r.Query {
		if q.Value == "" || len(q.Value) > 128 || len(q.Key) > 128 {
			return r, invalid("A query string value '%s' must have 1 to 128 characters, and its key at most 128", q.Value)
		}
	}
	return r, nil
}

// maxExpression bounds the size of regular expressions, as internal/host/application does: a request is matched with
// those of all rules.
const maxExpression = 4096

// isExpression reports whether a text is a regular expression that a load balancer matches: one by itself, which
// "a)(?:b" is not, and one in another's group, where "\Q" without "\E" has no end.
func isExpression(text string) bool {
	_, alone := syntax.Parse(text, syntax.Perl)
	tree, err := syntax.Parse("(?:"+text+")", syntax.Perl)
	return alone == nil && err == nil && text != "" && regexsize.Estimate(tree) <= maxExpression
}

// maxExpressions bounds the regular expressions of a load balancer together: what they take of memory in the process
// that forwards for all accounts, and of its time for a request.
const maxExpressions = 32 << 10

// checkExpressions refuses a load balancer whose rules have regular expressions that are too large together.
func checkExpressions(b record.LoadBalancer) error {
	size := 0
	for _, l := range b.Listeners {
		for _, r := range l.Rules {
			all := make([]string, 0, maxConditionValues+2)
			for _, c := range r.Conditions {
				all = append(all, c.Regex...)
			}
			for _, rewrite := range []*record.Rewrite{r.HostRewrite, r.URLRewrite} {
				if rewrite != nil {
					all = append(all, rewrite.Regex)
				}
			}
			for _, text := range all {
				if tree, err := syntax.Parse(text, syntax.Perl); err == nil {
					size += regexsize.Estimate(tree)
				}
			}
		}
	}
	if size > maxExpressions {
		return wire.Errorf("TooManyRules", "The regular expressions of the rules of a load balancer would have %d "+
			"instructions together, more than %d: use values with wildcards, or expressions that repeat less", size,
			maxExpressions)
	}
	return nil
}

func checkConditionValue(field, v string) error {
	if v == "" || len(v) > 128 {
		return invalid("Condition value '%s' must have 1 to 128 characters", v)
	}
	switch field {
	case hostHeader:
		last := v[strings.LastIndex(v, ".")+1:]
		if !hostValue.MatchString(v) || !strings.Contains(v, ".") || strings.ContainsAny(last, "0123456789-") {
			return invalid("Condition value '%s' is not a valid host name: it has alphanumeric characters, hyphens, *, ? "+
				"and at least one '.', and letters alone after the last one", v)
		}
	case pathPattern:
		if !pathValue.MatchString(v) {
			return invalid("Condition value '%s' contains a character that is not valid in a path", v)
		}
	case requestMethod:
		if !methodValue.MatchString(v) {
			return invalid("Condition value '%s' is not a valid HTTP request method", v)
		}
	case sourceIP:
		if _, err := netip.ParsePrefix(v); err != nil {
			return invalid("Condition value '%s' is not a valid CIDR block", v)
		}
	}
	return nil
}

// describeConditions returns conditions as the API shows them.
func describeConditions(list []record.RuleCondition) []types.RuleCondition {
	all := []types.RuleCondition{}
	for _, r := range list {
		d := types.RuleCondition{Field: &r.Field}
		switch r.Field {
		case hostHeader:
			d.Values, d.RegexValues = r.Values, r.Regex
			d.HostHeaderConfig = &types.HostHeaderConditionConfig{Values: r.Values, RegexValues: r.Regex}
		case pathPattern:
			d.Values, d.RegexValues = r.Values, r.Regex
			d.PathPatternConfig = &types.PathPatternConditionConfig{Values: r.Values, RegexValues: r.Regex}
		case httpHeader:
			d.HttpHeaderConfig = &types.HttpHeaderConditionConfig{HttpHeaderName: &r.Header, Values: r.Values,
				RegexValues: r.Regex}
		case requestMethod:
			d.HttpRequestMethodConfig = &types.HttpRequestMethodConditionConfig{Values: r.Values}
		case queryString:
			d.QueryStringConfig = &types.QueryStringConditionConfig{}
			for _, q := range r.Query {
				pair := types.QueryStringKeyValuePair{Value: &q.Value}
				if q.Key != "" {
					pair.Key = &q.Key
				}
				d.QueryStringConfig.Values = append(d.QueryStringConfig.Values, pair)
			}
		case sourceIP:
			d.SourceIpConfig = &types.SourceIpConditionConfig{Values: r.Values}
		}
		all = append(all, d)
	}
	return all
}
