package launchtemplate

import (
	"encoding/base64"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// MaxUserData is the most that user data may have, in bytes before it is encoded.
const MaxUserData = 16384

// DecodeUserData decodes user data, which requests have in base64.
func DecodeUserData(encoded *string) ([]byte, error) {
	text := aws.ToString(encoded)
	if text == "" {
		return nil, nil
	}
	data, err := base64.StdEncoding.DecodeString(strings.Map(func(r rune) rune {
		if r == '\n' || r == '\r' {
			return -1
		}
		return r
	}, text))
	if err != nil {
		return nil, wire.Errorf("InvalidUserData.Malformed", "Invalid BASE64 encoding of user data.")
	}
	if len(data) > MaxUserData {
		return nil, resource.Invalid("User data is limited to %d bytes", MaxUserData)
	}
	return data, nil
}
