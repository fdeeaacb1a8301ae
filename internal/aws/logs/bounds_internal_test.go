package logs

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"

	"github.com/coracle-eks/coracle/internal/logs/insights"
	"github.com/coracle-eks/coracle/internal/record"
)

// What SOURCE chooses is counted before anybody makes a target of each group.
func TestGroupsThatSourceChoosesAreBounded(t *testing.T) {
	t.Parallel()
	groups := make([]record.LogGroup, 0, maxSourced+2)
	for i := range maxSourced {
		groups = append(groups, record.LogGroup{Name: fmt.Sprint("a", i), Class: types.LogGroupClassStandard})
	}
	groups = append(groups, record.LogGroup{Name: "a", Class: types.LogGroupClassInfrequentAccess})
	source := &insights.Source{All: true, Prefixes: []string{"a"}}
	if chosen, err := selectSourced(source, groups[:maxSourced+1]); err != nil || len(chosen) != maxSourced {
		t.Errorf("as many as a query can have: %d, %v", len(chosen), err)
	}
	groups = append(groups[:maxSourced], record.LogGroup{Name: "ab", Class: types.LogGroupClassStandard})
	if chosen, err := selectSourced(source, groups); err == nil || chosen != nil ||
		!strings.Contains(err.Error(), "more than the 10000 log groups") {
		t.Errorf("one more: %d, %v", len(chosen), err)
	}
}

// A request compares a bounded number of characters, however many groups, tags, filters and values there are.
func TestFiltersOfTagsCostLittle(t *testing.T) {
	t.Parallel()
	value := strings.Repeat("a", longestTagValue)
	filter := types.TagFilter{Key: aws.String("k")}
	for range 1000 {
		filter.Values = append(filter.Values, strings.Repeat("*a", 100)+"#")
	}
	m := &tagMatcher{filters: []types.TagFilter{filter}}
	for range 100_000 {
		if m.matches(map[string]string{"k": value}) {
			t.Fatal("it fits")
		}
	}
	if most := maxTagSteps + 1000; m.err == nil || m.steps > most {
		t.Errorf("%d characters are compared, and may be %d: %v", m.steps, most, m.err)
	}
	absent := &tagMatcher{filters: slices.Repeat([]types.TagFilter{{Key: aws.String("")}}, 2), steps: maxTagSteps - 1}
	if absent.matches(nil) || absent.err != nil || absent.matches(nil) || absent.err == nil {
		t.Errorf("keys that no group has count %d: %v", absent.steps-maxTagSteps, absent.err)
	}
}
