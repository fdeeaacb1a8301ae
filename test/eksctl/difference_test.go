package eksctl

import "testing"

func TestAnAnswerIsAwaitedWhereTheRecordedOneStays(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		recorded, actual string
		same             bool
	}{
		{"ACTIVE", "ACTIVE", true},
		{"ACTIVE", "CREATING", false},
		{"CREATING", "ACTIVE", true},
		{"CREATE_COMPLETE", "CREATE_IN_PROGRESS", false},
		{"CREATE_IN_PROGRESS", "CREATE_COMPLETE", true},
		{"InProgress", "Successful", true},
		{"Successful", "Failed", false},
	} {
		problem := difference([]leaf{{"addon.status", c.recorded}}, []leaf{{"addon.status", c.actual}})
		if same := problem == ""; same != c.same {
			t.Errorf("%s for %s: %q", c.actual, c.recorded, problem)
		}
	}
	if problem := difference([]leaf{{"addon.status", "CREATING"}}, nil); problem == "" {
		t.Error("a member may be away")
	}
	none, err := flatten([]byte(`{"fargateProfileNames": []}`))
	if err != nil {
		t.Fatal(err)
	}
	one, err := flatten([]byte(`{"fargateProfileNames": ["demo"]}`))
	if err != nil {
		t.Fatal(err)
	}
	if difference(none, one) == "" || difference(one, none) == "" || difference(none, none) != "" {
		t.Error("a list that was empty is not awaited to be empty")
	}
	if problem := difference([]leaf{{"addon.health.issues[].code", ""}}, nil); problem != "" {
		t.Errorf("an issue is missed: %s", problem)
	}
}

func TestIdentifiersAreTranslated(t *testing.T) {
	t.Parallel()
	translated := translation{}
	const path = "association.associationArn"
	translated.learn(
		[]leaf{{path, "arn:aws:eks:eu-west-1:111122223333:podidentityassociation/c/a-wmlj8ql4zhux5aril"}},
		[]leaf{{path, "arn:aws:eks:eu-west-1:111122223333:podidentityassociation/c/a-0123456789abcdefg"}})
	translated.learn([]leaf{{"Parameter.Value", "ami-0123456789abcdef0"}},
		[]leaf{{"Parameter.Value", "ami-0fedcba9876543210"}})
	translated.learn([]leaf{{"imagesSet.item.imageId", "ami-0aaaaaaaaaaaaaaaa"}},
		[]leaf{{"imagesSet.item.imageId", "ami-0bbbbbbbbbbbbbbbb"}})
	request := translated.request(exchange{
		Method: "GET", URI: "/clusters/c/pod-identity-associations/a-wmlj8ql4zhux5aril",
		Body: `{"imageId": "ami-0123456789abcdef0", "of": "ami-0aaaaaaaaaaaaaaaa"}`,
	})
	if want := "/clusters/c/pod-identity-associations/a-0123456789abcdefg"; request.URI != want {
		t.Errorf("the request is for %s, want %s", request.URI, want)
	}
	if want := `{"imageId": "ami-0fedcba9876543210", "of": "ami-0aaaaaaaaaaaaaaaa"}`; request.Body != want {
		t.Errorf("the body is %s, want %s", request.Body, want)
	}
}
