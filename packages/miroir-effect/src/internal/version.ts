/** As in package.json, which the bundle does not hold. */

export const version = "0.1.0"
