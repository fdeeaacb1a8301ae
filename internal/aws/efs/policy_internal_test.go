package efs

import (
	"runtime"
	"strings"
	"testing"
)

// Statements get a resource where they stand, and nothing else of a policy changes.
func TestPoliciesAreCompleted(t *testing.T) {
	t.Parallel()
	const arn = "arn:aws:elasticfilesystem:eu-west-1:111122223333:file-system/fs-1"
	const pattern = "arn:aws:elasticfilesystem:*:111122223333:file-system/fs-?"
	for given, want := range map[string]string{
		`{"Statement":{"Effect":"Allow"},"Id":"x"}`: `{"Statement":{"Resource":"` + arn + `","Effect":"Allow"},"Id":"x"}`,
		`{"Id":{"Statement":[{}]},"Statement":[{"Sid":"a","Condition":{"NumericEquals":{"x":9007199254740993}}},
			{"Resource":"*"},{}]}`: `{"Id":{"Statement":[{}]},"Statement":[{"Resource":"` + arn +
			`","Sid":"a","Condition":{"NumericEquals":{"x":9007199254740993}}},
			{"Resource":"*"},{"Resource":"` + arn + `"}]}`,
		`{"Statement":[{"Resource":["` + arn + `","` + pattern + `"]}]}`: `{"Statement":[{"Resource":["` + arn +
			`","` + pattern + `"]}]}`,
		`{"Statement":[[]]}`: `{"Statement":[[]]}`,
		`{"Statement":1}`:    `{"Statement":1}`,
		`{}`:                 `{}`,
	} {
		got, err := completePolicy(given, arn)
		if err != nil || got != want {
			t.Errorf("%s: got %s, %v; want %s", given, got, err, want)
		}
	}
}

// A policy of many statements is not copied for each of them.
func TestALongPolicyIsCompletedOnce(t *testing.T) { // not parallel: it counts allocations
	const arn, statements = "arn:aws:elasticfilesystem:eu-west-1:111122223333:file-system/fs-0123456789abcdef0", 6600
	given := `{"Statement":[` + strings.Repeat("{},", statements-1) + `{}]}`
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got, err := completePolicy(given, arn)
	runtime.ReadMemStats(&after)
	if err != nil || strings.Count(got, `{"Resource":"`+arn+`"}`) != statements {
		t.Errorf("%d of %d statements have a resource: %v", strings.Count(got, arn), statements, err)
	}
	// 2.2 GB when the text is made anew for each statement.
	if size := after.TotalAlloc - before.TotalAlloc; size > 1<<30 {
		t.Errorf("it takes %d MiB", size>>20)
	}
}

func TestResourcesOfOtherFileSystems(t *testing.T) {
	t.Parallel()
	const arn = "arn:aws:elasticfilesystem:eu-west-1:111122223333:file-system/fs-1"
	for resource, ok := range map[string]bool{
		"*": true, arn: true, "arn:aws:elasticfilesystem:*": true, "arn:*:*:*:*:file-system/*": true,
		"arn:aws:elasticfilesystem:eu-west-1:111122223333:file-system/fs-??": false, arn + "0": false,
		"arn:aws:elasticfilesystem:eu-west-2:*:*": false, "arn:*:file-system/fs-1": false, "fs-1": false,
		"arn:aws:elasticfilesystem:eu-west-1:111122223333:file-system/${*}": false,
		"arn:aws:elasticfilesystem:eu-west-1:111122223333:access-point/*":   false,
		strings.Repeat("*", 20_000):                                         true, strings.Repeat("?", 20_000): false,
	} {
		_, err := completePolicy(`{"Statement":{"Resource":"`+resource+`"}}`, arn)
		if (err == nil) != ok {
			t.Errorf("%.80s: %v", resource, err)
		}
	}
}
