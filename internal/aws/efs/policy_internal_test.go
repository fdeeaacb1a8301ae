package efs

import "testing"

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
