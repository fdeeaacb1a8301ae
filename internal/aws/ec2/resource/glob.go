package resource

import (
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// Limits of the filters of a request.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/Using_Filtering.html
const (
	maxFilters      = 50
	MaxFilterValues = 200
	// MaxGlobSteps is the maximum number of character comparisons for a request: about a second of processor time.
	// Patterns with many wildcards need a product of their length and that of each value.
	MaxGlobSteps = 200_000_000
)

// CheckFilters demands that there are not too many filters, or values of one.
func CheckFilters(filters []types.Filter) error {
	if len(filters) > maxFilters {
		return wire.Errorf("FilterLimitExceeded", "The maximum number of filters specified on a single call is %d",
			maxFilters)
	}
	for _, f := range filters {
		if len(f.Values) > MaxFilterValues {
			return wire.Errorf("FilterLimitExceeded",
				"The maximum number of filter values specified on a single call is %d", MaxFilterValues)
		}
	}
	return nil
}

// Globs matches values with the patterns of one request, as long as that takes no more than it may.
type Globs struct {
	Context context.Context
	Steps   int
	Err     error
}

// MatchesAny reports whether one of the patterns fits a value; false once g.Err is set.
func (g *Globs) MatchesAny(patterns []string, value string) bool {
	if g.Err != nil {
		return false
	}
	if g.Err = g.Context.Err(); g.Err != nil {
		return false
	}
	fits := slices.ContainsFunc(patterns, func(pattern string) bool {
		ok, steps := MatchGlob(pattern, value)
		g.Steps += steps
		return ok
	})
	if g.Steps > MaxGlobSteps {
		g.Err = wire.Errorf("FilterLimitExceeded",
			"The filters take too long to evaluate: give fewer values, or values with fewer wildcards.")
	}
	return fits
}

// MatchGlob reports whether a pattern fits a value, and how many characters it has compared: in a pattern * stands for
// any text, ? for any character, and \ takes that meaning away.
func MatchGlob(pattern, value string) (fits bool, steps int) {
	p, v := 0, 0
	star, from := -1, 0 // behind the last *, and where in value what it stands for ends
	for v < len(value) {
		steps++
		if p < len(pattern) && pattern[p] == '*' {
			p++
			star, from = p, v
			continue
		}
		if n, ok := matchCharacter(pattern[p:], value[v]); ok {
			p, v = p+n, v+1
			continue
		}
		if star < 0 {
			return false, steps
		}
		from++ // the * stands for one more
		p, v = star, from
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
		steps++
	}
	return p == len(pattern), steps + 1
}

// matchCharacter matches the first character of a pattern, of n bytes there, that is no *.
func matchCharacter(pattern string, c byte) (n int, ok bool) {
	switch {
	case pattern == "":
		return 0, false
	case pattern[0] == '?':
		return 1, true
	case pattern[0] == '\\' && len(pattern) > 1:
		return 2, pattern[1] == c
	}
	return 1, pattern[0] == c
}
