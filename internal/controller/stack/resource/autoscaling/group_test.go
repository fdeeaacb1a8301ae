package autoscaling

import (
	"reflect"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
)

func TestGroupSettingsAreMembersOfTheUpdate(t *testing.T) {
	t.Parallel()
	for _, name := range groupSettings {
		member := name
		if renamed := groupMembers[name]; renamed != "" {
			member = renamed
		}
		if _, ok := reflect.TypeFor[autoscaling.UpdateAutoScalingGroupInput]().FieldByName(member); !ok {
			t.Errorf("%s is not set by UpdateAutoScalingGroup", name)
		}
	}
}
