package template

import (
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// CreationPolicy and UpdatePolicy are attributes of some resource types.
//
// https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/aws-attribute-creationpolicy.html
// https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/aws-attribute-updatepolicy.html

const groupType = "AWS::AutoScaling::AutoScalingGroup"

// creationTypes are the types that wait for signals.
var creationTypes = []string{groupType, "AWS::CloudFormation::WaitCondition", "AWS::EC2::Instance"}

// member checks a member of a policy, and returns what it should be, or "".
type member func(value any) string

// creationMembers and updateMembers are the members of creation and update policies.
var (
	creationMembers = map[string]map[string]member{
		"AutoScalingCreationPolicy": {"MinSuccessfulInstancesPercent": wantPercent},
		"ResourceSignal":            {"Count": wantCount, "Timeout": wantDuration},
	}
	updateMembers = map[string]map[string]member{
		"AutoScalingReplacingUpdate": {"WillReplace": wantBool},
		"AutoScalingScheduledAction": {"IgnoreUnmodifiedGroupSizeProperties": wantBool},
		"AutoScalingRollingUpdate": {"MaxBatchSize": wantCount, "MinActiveInstancesPercent": wantPercent,
			"MinInstancesInService": wantCount, "MinSuccessfulInstancesPercent": wantPercent, "PauseTime": wantDuration,
			"SuspendProcesses": wantList, "WaitOnResourceSignals": wantBool},
	}
)

// checkPolicies checks the evaluated CreationPolicy and UpdatePolicy of a resource.
func (r Resource) checkPolicies(creation, update any) error {
	if creation != nil {
		if !slices.Contains(creationTypes, r.Type) {
			return errorf("CreationPolicy is not supported for resource type %s", r.Type)
		}
		if err := checkPolicy(r.LogicalID, "CreationPolicy", creation, creationMembers); err != nil {
			return err
		}
		object, _ := creation.(map[string]any)
		if _, ok := object["AutoScalingCreationPolicy"]; ok && r.Type != groupType {
			return errorf("CreationPolicy attribute AutoScalingCreationPolicy is not supported for resource type %s", r.Type)
		}
	}
	if update != nil {
		if r.Type != groupType {
			return errorf("UpdatePolicy is not supported for resource type %s", r.Type)
		}
		return checkPolicy(r.LogicalID, "UpdatePolicy", update, updateMembers)
	}
	return nil
}

func checkPolicy(logicalID, name string, value any, allowed map[string]map[string]member) error {
	policy, ok := value.(map[string]any)
	if !ok {
		return errorf("Template format error: [/Resources/%s/%s] Every %s member must be an object.", logicalID, name, name)
	}
	for _, attribute := range sortedKeys(policy) {
		members, ok := allowed[attribute]
		if !ok {
			return errorf("Encountered unsupported property %s in %s of resource %s", attribute, name, logicalID)
		}
		object, ok := policy[attribute].(map[string]any)
		if !ok {
			return errorf("Value of property %s in %s of resource %s must be an object", attribute, name, logicalID)
		}
		for _, key := range sortedKeys(object) {
			check, ok := members[key]
			if !ok {
				return errorf("Encountered unsupported property %s in %s of resource %s", key, name, logicalID)
			}
			if object[key] == any(Unknown) {
				continue
			}
			if want := check(object[key]); want != "" {
				return errorf("Value of property %s in %s of resource %s must be %s", key, name, logicalID, want)
			}
		}
	}
	return nil
}

func wantBool(value any) string {
	if text, _ := scalarText(value); strings.EqualFold(text, "true") || strings.EqualFold(text, "false") {
		return ""
	}
	return "of type Boolean"
}

func wantCount(value any) string { return wantBetween(value, 100_000, "a non-negative integer") }

func wantPercent(value any) string { return wantBetween(value, 100, "an integer from 0 to 100") }

func wantBetween(value any, most int64, want string) string {
	text, _ := scalarText(value)
	number, ok := parseNumber(text)
	if !ok || !number.IsInt() || number.Sign() < 0 || number.Cmp(big.NewRat(most, 1)) > 0 {
		return want
	}
	return ""
}

func wantDuration(value any) string {
	text, _ := scalarText(value)
	if _, ok := ParseDuration(text); ok {
		return ""
	}
	return "an ISO 8601 duration of at most PT12H"
}

func wantList(value any) string {
	const want = "of type List of String"
	list, ok := value.([]any)
	if !ok || slices.ContainsFunc(list, func(v any) bool { return !isScalar(v) && v != any(Unknown) }) {
		return want
	}
	return ""
}

var duration = regexp.MustCompile(`^PT(?:(\d{1,5})H)?(?:(\d{1,5})M)?(?:(\d{1,5})S)?$`)

// ParseDuration parses a timeout or a pause of CreationPolicy and UpdatePolicy, such as PT1H30M. The most is PT12H.
func ParseDuration(text string) (time.Duration, bool) {
	parts := duration.FindStringSubmatch(text)
	if parts == nil || text == "PT" {
		return 0, false
	}
	total := time.Duration(0)
	for i, unit := range []time.Duration{time.Hour, time.Minute, time.Second} {
		if parts[i+1] == "" {
			continue
		}
		count, err := strconv.Atoi(parts[i+1])
		if err != nil {
			return 0, false
		}
		total += time.Duration(count) * unit
	}
	return total, total <= 12*time.Hour
}
