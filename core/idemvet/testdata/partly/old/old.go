// Package old does not compile.
package old

import "github.com/auth19/idem/core/idemvet/testdata/partly/lib"

func Save() int { return lib.Gone() }
