// Profiles: what a sandbox may do, before there is one.
import type { Http } from './http.js'
import type { Profile, ProfileCheck, ProfileKey, ProfileWishes } from './types.js'

export class Profiles {
  readonly #http: Http

  constructor(http: Http) {
    this.#http = http
  }

  /** Those that can be named, each with what a sandbox with it may do, in sentences. */
  async list(): Promise<Profile[]> {
    return (await this.#http.call<{ profiles: Profile[] }>('GET', '/api/profiles')).profiles
  }

  /** The keys that overrides may have, with the bounds that hold on this host. */
  async schema(): Promise<ProfileKey[]> {
    return (await this.#http.call<{ keys: ProfileKey[] }>('GET', '/api/profiles/schema')).keys
  }

  /** What would come of these wishes, or what is wrong with which of them. Nothing is made. */
  check(wishes: ProfileWishes = {}): Promise<ProfileCheck> {
    return this.#http.call('POST', '/api/profiles/check', {}, { json: wishes })
  }
}
