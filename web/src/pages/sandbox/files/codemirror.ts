// The text editor: CodeMirror, with as much of it as is needed here.
import { defaultKeymap, history, historyKeymap, indentWithTab } from '@codemirror/commands'
import { bracketMatching, HighlightStyle, indentOnInput, indentUnit, StreamLanguage, syntaxHighlighting, type StreamParser } from '@codemirror/language'
import { highlightSelectionMatches, search, searchKeymap } from '@codemirror/search'
import { Compartment, EditorState } from '@codemirror/state'
import { drawSelection, EditorView, highlightActiveLine, highlightActiveLineGutter, highlightSpecialChars, keymap, lineNumbers } from '@codemirror/view'
import { tags } from '@lezer/highlight'
import { nonce } from '../../../lib/nonce'
import { DARK, LIGHT, type Colour } from './colours'
import type { Language } from './content'

type Parser = StreamParser<unknown>

function styleOf(colours: Readonly<Record<Colour, string>>): HighlightStyle {
  return HighlightStyle.define([
    { tag: [tags.keyword, tags.operatorKeyword, tags.modifier], color: colours.keyword },
    { tag: [tags.string, tags.special(tags.string), tags.regexp, tags.escape, tags.inserted], color: colours.string },
    { tag: [tags.number, tags.bool, tags.null, tags.atom], color: colours.number },
    { tag: [tags.comment, tags.meta], color: colours.comment, fontStyle: 'italic' },
    { tag: [tags.definition(tags.variableName), tags.function(tags.variableName), tags.heading], color: colours.definition },
    { tag: [tags.typeName, tags.className, tags.tagName], color: colours.type },
    { tag: [tags.propertyName, tags.attributeName], color: colours.property },
    { tag: [tags.invalid, tags.deleted], color: colours.invalid },
  ])
}

const STYLES = { dark: styleOf(DARK), light: styleOf(LIGHT) }

/** Each is fetched when a file of its kind is opened. */
async function parserOf(language: Language): Promise<Parser> {
  switch (language) {
    case 'c': case 'cpp': case 'java': case 'csharp': case 'kotlin': {
      const modes = await import('@codemirror/legacy-modes/mode/clike')
      return modes[language] as Parser
    }
    case 'javascript': return (await import('@codemirror/legacy-modes/mode/javascript')).javascript as Parser
    case 'typescript': return (await import('@codemirror/legacy-modes/mode/javascript')).typescript as Parser
    case 'json': return (await import('@codemirror/legacy-modes/mode/javascript')).json as Parser
    case 'python': return (await import('@codemirror/legacy-modes/mode/python')).python as Parser
    case 'go': return (await import('@codemirror/legacy-modes/mode/go')).go as Parser
    case 'rust': return (await import('@codemirror/legacy-modes/mode/rust')).rust as Parser
    case 'shell': return (await import('@codemirror/legacy-modes/mode/shell')).shell as Parser
    case 'yaml': return (await import('@codemirror/legacy-modes/mode/yaml')).yaml as Parser
    case 'toml': return (await import('@codemirror/legacy-modes/mode/toml')).toml as Parser
    case 'css': return (await import('@codemirror/legacy-modes/mode/css')).css as Parser
    case 'html': return (await import('@codemirror/legacy-modes/mode/xml')).html as Parser
    case 'xml': return (await import('@codemirror/legacy-modes/mode/xml')).xml as Parser
    case 'diff': return (await import('@codemirror/legacy-modes/mode/diff')).diff as Parser
    case 'dockerfile': return (await import('@codemirror/legacy-modes/mode/dockerfile')).dockerFile as Parser
    case 'properties': return (await import('@codemirror/legacy-modes/mode/properties')).properties as Parser
    case 'lua': return (await import('@codemirror/legacy-modes/mode/lua')).lua as Parser
    case 'ruby': return (await import('@codemirror/legacy-modes/mode/ruby')).ruby as Parser
  }
}

export interface EditorOptions {
  text: string
  language: Language | undefined
  readOnly: boolean
  dark: boolean
  label: string
  onChange: (text: string) => void
  onSave: () => void
}

/** What turns the reading direction around is shown, too. */
const ODD = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ufff9-\ufffc]/g

export class Editor {
  readonly #view: EditorView
  readonly #highlight = new Compartment()
  readonly #language = new Compartment()

  constructor(place: HTMLElement, options: EditorOptions) {
    this.#view = new EditorView({
      parent: place,
      state: EditorState.create({
        doc: options.text,
        extensions: [
          EditorView.cspNonce.of(nonce()),
          EditorState.readOnly.of(options.readOnly),
          EditorView.contentAttributes.of({ 'aria-label': options.label }),
          EditorView.lineWrapping,
          lineNumbers(),
          highlightActiveLine(),
          highlightActiveLineGutter(),
          highlightSpecialChars({ specialChars: ODD }),
          history(),
          drawSelection(),
          indentOnInput(),
          indentUnit.of(/^\t/m.test(options.text) ? '\t' : '  '),
          bracketMatching(),
          highlightSelectionMatches(),
          search({ top: true }),
          this.#language.of([]),
          this.#highlight.of(this.#styles(options.dark)),
          keymap.of([{ key: 'Mod-s', preventDefault: true, run: () => (options.onSave(), true) }, indentWithTab, ...searchKeymap, ...historyKeymap, ...defaultKeymap]),
          EditorView.updateListener.of((update) => {
            if (update.docChanged) options.onChange(update.state.doc.toString())
          }),
        ],
      }),
    })
    if (options.language) void parserOf(options.language).then((parser) => this.#view.dispatch({ effects: this.#language.reconfigure(StreamLanguage.define(parser)) }), () => undefined)
  }

  #styles(dark: boolean) {
    return [EditorView.theme({}, { dark }), syntaxHighlighting(dark ? STYLES.dark : STYLES.light)]
  }

  set dark(dark: boolean) {
    this.#view.dispatch({ effects: this.#highlight.reconfigure(this.#styles(dark)) })
  }

  /** Something else stands there now. The history goes on: it can be undone. */
  replace(text: string): void {
    if (text !== this.#view.state.doc.toString()) this.#view.dispatch({ changes: { from: 0, to: this.#view.state.doc.length, insert: text } })
  }

  focus(): void {
    this.#view.focus()
  }

  destroy(): void {
    this.#view.destroy()
  }
}
