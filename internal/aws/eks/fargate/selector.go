package fargate

import (
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/coracle-eks/coracle/internal/aws/eks/exception"
	"github.com/coracle-eks/coracle/internal/record"
)

// The quotas of a profile.
// https://docs.aws.amazon.com/general/latest/gr/eks.html#limits_eks
const (
	maxSelectors = 5
	maxLabels    = 5 // of a selector
)

// newSelectors validates the selectors of a request. Wildcards may stand in namespaces, keys and values.
// https://docs.aws.amazon.com/eks/latest/userguide/fargate-profile.html#fargate-profile-wildcards
func newSelectors(f exception.About, in []types.FargateProfileSelector) ([]record.FargateSelector, error) {
	switch {
	case len(in) == 0:
		return nil, f.InvalidParameter("Fargate Profile requires at least one selector.")
	case len(in) > maxSelectors:
		return nil, f.InvalidParameter("Request contains more than %d Selectors", maxSelectors)
	}
	var selectors []record.FargateSelector
	for _, s := range in {
		selector := record.FargateSelector{Namespace: aws.ToString(s.Namespace), Labels: s.Labels}
		if err := checkSelector(f, selector); err != nil {
			return nil, err
		}
		selectors = append(selectors, selector)
	}
	return selectors, nil
}

// checkSelector demands that there can be pods that a selector matches.
func checkSelector(f exception.About, s record.FargateSelector) error {
	if s.Namespace == "" {
		return f.InvalidParameter("Fargate Profile must have at least one selector with at least one namespace value.")
	}
	if len(s.Labels) > maxLabels {
		return f.InvalidParameter("Request contains Selector with more than %d Label pairs", maxLabels)
	}
	if faults := validation.IsDNS1123Label(example(s.Namespace)); len(faults) > 0 {
		return f.InvalidParameter("The namespace provided is invalid. Namespace %q: %s", s.Namespace, faults[0])
	}
	for _, key := range slices.Sorted(maps.Keys(s.Labels)) {
		if faults := validation.IsQualifiedName(example(key)); len(faults) > 0 {
			return f.InvalidParameter("Selector label provided is invalid. Key %q: %s", key, faults[0])
		}
		if faults := validation.IsValidLabelValue(example(s.Labels[key])); len(faults) > 0 {
			return f.InvalidParameter(
				"Selector label provided is invalid. Value %q of %s: %s", s.Labels[key], key, faults[0],
			)
		}
	}
	return nil
}

// example returns a text that a pattern with wildcards matches.
func example(pattern string) string { return strings.NewReplacer("*", "a", "?", "a").Replace(pattern) }
