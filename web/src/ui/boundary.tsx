// Catches what breaks while a page is drawn, and says so instead of an empty page.
import { Component, type ComponentChildren } from 'preact'
import { Failure } from './state'

export class Boundary extends Component<{ children: ComponentChildren }, { error: unknown; failed: boolean }> {
  override state = { error: undefined, failed: false }

  static override getDerivedStateFromError(error: unknown) {
    return { error, failed: true }
  }

  override render() {
    if (!this.state.failed) return this.props.children
    return (
      <div class="page">
        <Failure title="This page broke." error={this.state.error} retry={() => this.setState({ error: undefined, failed: false })} />
      </div>
    )
  }
}
