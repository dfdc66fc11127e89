package galera

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/core/storetest"
	"github.com/auth19/idem/gormstore"
)
