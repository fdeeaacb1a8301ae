package identity

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// consoleSession is the lifetime of a sign-in to the console, which is that of AWS's console.
// https://docs.aws.amazon.com/signin/latest/userguide/console-sign-in-tutorials.html
const consoleSession = 12 * time.Hour

// ConsoleCredentials returns temporary credentials of the root user of an account, as a sign-in to AWS's console has
// them: other than those of GetSessionToken, they are good for IAM and STS, too. They end with the access key of that
// ID, which is the root user's.
func (i *Identity) ConsoleCredentials(ctx context.Context, account, accessKeyID string) (aws.Credentials, error) {
	now := i.now().UTC().Truncate(time.Second)
	session := &Session{Account: account, PrincipalID: account, Issued: now, Expires: now.Add(consoleSession),
		LongTerm: true, Key: accessKeyID}
	token, err := i.Seal(ctx, session)
	if err != nil {
		return aws.Credentials{}, fmt.Errorf("credentials for the console of account %s: %w", account, err)
	}
	return aws.Credentials{AccessKeyID: session.AccessKeyID, SecretAccessKey: session.Secret, SessionToken: token,
		CanExpire: true, Expires: session.Expires, Source: "CoracleConsole", AccountID: account}, nil
}
