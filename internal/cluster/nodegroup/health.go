package nodegroup

import (
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
)

// issues are what is wrong with a group.
type issues []ekstypes.Issue
